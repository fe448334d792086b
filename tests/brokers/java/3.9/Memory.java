import java.nio.ByteBuffer;
import org.apache.kafka.common.record.MemoryRecords;

/** The reader of fetched bytes, whose package differs between releases. */
final class Memory {
    private Memory() {}

    static MemoryRecords read(byte[] bytes) {
        return MemoryRecords.readableRecords(ByteBuffer.wrap(bytes));
    }
}
