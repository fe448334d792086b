import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Lets consumer groups read the topic {@code groups} and commit: {@code java Commit BOOTSTRAP
 * GROUP...}. The topic must hold records that they have not read.
 */
final class Commit {
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    public static void main(String[] arguments) {
        var bytes = new ByteArrayDeserializer();
        for (String group : List.of(arguments).subList(1, arguments.length)) {
            Map<String, Object> settings =
                    Map.of(
                            "bootstrap.servers", arguments[0],
                            "group.id", group,
                            "auto.offset.reset", "earliest",
                            "enable.auto.commit", false);
            try (var consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
                consumer.subscribe(List.of("groups"));
                long deadline = System.nanoTime() + PATIENCE.toNanos();
                while (Polling.poll(consumer).isEmpty()) {
                    if (System.nanoTime() > deadline) {
                        throw new IllegalStateException("group " + group + " reads nothing");
                    }
                }
                consumer.commitSync();
            }
        }
    }
}
