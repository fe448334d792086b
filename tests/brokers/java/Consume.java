import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads partitions from their beginning to their end, one JSON object a record.
 *
 * <p>{@code java Consume.java BOOTSTRAP ISOLATION DIRECTORY TOPIC-PARTITION...} writes
 * {@code DIRECTORY/TOPIC-PARTITION.ISOLATION.jsonl}. It ends when its position is the end that the
 * broker tells for that isolation level. Without a group, it leaves no trace in the log.
 */
final class Consume {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings =
                Map.of(
                        "bootstrap.servers", arguments[0],
                        "isolation.level", arguments[1],
                        "fetch.max.wait.ms", 20,
                        "auto.offset.reset", "none",
                        "enable.auto.commit", false);
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            for (String name : List.of(arguments).subList(3, arguments.length)) {
                Path path = Path.of(arguments[2], name + "." + arguments[1] + ".jsonl");
                try (BufferedWriter output = Files.newBufferedWriter(path)) {
                    read(consumer, partition(name), output);
                }
            }
        }
    }

    private static TopicPartition partition(String name) {
        int dash = name.lastIndexOf('-');
        return new TopicPartition(
                name.substring(0, dash), Integer.parseInt(name.substring(dash + 1)));
    }

    private static void read(
            KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, BufferedWriter output)
            throws Exception {
        var only = List.of(partition);
        consumer.assign(only);
        consumer.seekToBeginning(only);
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (consumer.position(partition) < consumer.endOffsets(only).get(partition)) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException(
                        "no end of " + partition + " at offset " + consumer.position(partition));
            }
            for (var record : consumer.poll(Duration.ofMillis(100))) {
                output.write(JSON.writeValueAsString(json(record)));
                output.write("\n");
            }
        }
    }

    private static ObjectNode json(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode line = JSON.createObjectNode();
        line.put("offset", record.offset());
        line.put("timestamp", record.timestamp());
        line.put("timestamp_type", record.timestampType().name);
        put(line, "key", record.key());
        put(line, "value", record.value());
        ArrayNode headers = line.putArray("headers");
        for (Header header : record.headers()) {
            put(headers.addObject().put("key", header.key()), "value", header.value());
        }
        return line;
    }

    private static void put(ObjectNode object, String name, byte[] bytes) {
        if (bytes == null) {
            object.putNull(name);
        } else {
            object.put(name + "_base64", Base64.getEncoder().encodeToString(bytes));
        }
    }
}
