import java.time.Duration;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/** Waits for records, as clients of 2.0 and later do. */
final class Polling {
    private static final Duration WAIT = Duration.ofMillis(100);

    static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer) {
        return consumer.poll(WAIT);
    }
}
