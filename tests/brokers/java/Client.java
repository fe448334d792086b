import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** A producer that sends a batch when it is told to, and only then. */
final class Client implements AutoCloseable {
    final KafkaProducer<byte[], byte[]> producer;

    Client(Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(settings);
        all.put("linger.ms", 60_000);
        all.put("batch.size", 60_000);
        var bytes = new ByteArraySerializer();
        producer = new KafkaProducer<>(all, bytes, bytes);
    }

    /** Sends one batch, and waits until the broker has it. */
    void send(List<Content.Message> batch) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (var message : batch) {
            sent.add(producer.send(Converting.toRecord(message)));
        }
        producer.flush();
        for (var acknowledged : sent) {
            acknowledged.get();
        }
    }

    @Override
    public void close() {
        producer.close();
    }
}
