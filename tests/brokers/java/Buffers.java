import org.apache.kafka.common.utils.BufferSupplier;

/** The buffers of readers, whose package differs between releases. */
final class Buffers {
    static final BufferSupplier ALL = BufferSupplier.create();

    private Buffers() {}
}
