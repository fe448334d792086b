import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Producers of 0.8.2, which know neither times nor headers. They cannot be told to flush either: a
 * batch is all that a producer sends before it is closed.
 */
final class Client implements AutoCloseable {
    private final Map<String, Object> settings;

    Client(Map<String, Object> settings) {
        this.settings = new HashMap<>(settings);
        this.settings.put("linger.ms", 60_000);
        this.settings.put("batch.size", 60_000);
    }

    /** Sends one batch, and waits until the broker has it. */
    void send(List<Content.Message> batch) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        var bytes = new ByteArraySerializer();
        try (var producer = new KafkaProducer<>(settings, bytes, bytes)) {
            for (var message : batch) {
                sent.add(
                        producer.send(
                                new ProducerRecord<>(
                                        message.topic(),
                                        message.partition(),
                                        message.key(),
                                        message.value())));
            }
        }
        for (var acknowledged : sent) {
            acknowledged.get();
        }
    }

    /** Nothing is left open. */
    @Override
    public void close() {}
}
