import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads partitions from their beginning to their end, one JSON object a record.
 *
 * <p>{@code java Consume BOOTSTRAP ISOLATION DIRECTORY TOPIC-PARTITION...} writes
 * {@code DIRECTORY/TOPIC-PARTITION.ISOLATION.jsonl}. It ends when its position is the end that the
 * broker tells for that isolation level. Without a group, it leaves no trace in the log.
 */
final class Consume {
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
                try (Lines lines = new Lines(path)) {
                    read(consumer, partition(name), lines);
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
            KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, Lines lines)
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
            for (var record : Polling.poll(consumer)) {
                Converting.write(record, lines);
            }
        }
    }
}
