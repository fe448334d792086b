import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/** Waits for records, as clients before 2.0 do. */
final class Polling {
    private static final long WAIT_MS = 100;

    static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer) {
        return consumer.poll(WAIT_MS);
    }
}
