import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes records of certain times, and deletes the first ones: {@code java Ages BOOTSTRAP}.
 *
 * <p>Reads {@code {"topic": {"records": [[partition, timestamp, bytes], ...], "delete": offset}}} from
 * standard input. Each record is a batch, and has a key of its own.
 */
final class Ages {
    public static void main(String[] arguments) throws Exception {
        JsonNode wanted = new ObjectMapper().readTree(System.in);
        Map<String, Object> settings =
                Map.of("bootstrap.servers", arguments[0], "linger.ms", 0, "batch.size", 0);
        var bytes = new ByteArraySerializer();
        try (var producer = new KafkaProducer<>(settings, bytes, bytes)) {
            wanted.properties().forEach(topic -> {
                int number = 0;
                for (JsonNode record : topic.getValue().get("records")) {
                    byte[] key = Integer.toString(number++).getBytes();
                    byte[] value = new byte[record.get(2).asInt()];
                    producer.send(new ProducerRecord<>(topic.getKey(), record.get(0).asInt(),
                            record.get(1).asLong(), key, value));
                }
            });
            producer.flush();
        }
        Map<TopicPartition, RecordsToDelete> deleted = new HashMap<>();
        wanted.properties().forEach(topic -> {
            if (topic.getValue().hasNonNull("delete")) {
                deleted.put(new TopicPartition(topic.getKey(), 0),
                        RecordsToDelete.beforeOffset(topic.getValue().get("delete").asLong()));
            }
        });
        try (Admin admin = Admin.create(settings)) {
            admin.deleteRecords(deleted).all().get();
        }
    }
}
