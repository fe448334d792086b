import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Looks offsets up by time: {@code java Times BOOTSTRAP}.
 *
 * <p>Reads {@code {"topic-0": [timestamp, ...]}} from standard input, and prints for each partition
 * as many answers of {@code offsetsForTimes}: {@code [offset, timestamp, leader epoch or null]}, or
 * null where there is none.
 */
final class Times {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0]);
        var bytes = new ByteArrayDeserializer();
        ObjectNode answers = JSON.createObjectNode();
        try (var consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            JsonNode wanted = JSON.readTree(System.in);
            // A request asks for one time of each partition.
            for (int index = 0, left = 1; left > 0; index++) {
                Map<TopicPartition, Long> asked = new HashMap<>();
                for (var names = wanted.fieldNames(); names.hasNext(); ) {
                    String name = names.next();
                    if (index < wanted.get(name).size()) {
                        asked.put(partition(name), wanted.get(name).get(index).asLong());
                    }
                }
                left = asked.size();
                ask(consumer, asked, answers);
            }
        }
        JSON.writeValue(System.out, answers);
    }

    private static void ask(
            KafkaConsumer<byte[], byte[]> consumer,
            Map<TopicPartition, Long> asked,
            ObjectNode answers) {
        consumer.offsetsForTimes(asked)
                .forEach(
                        (partition, found) -> {
                            ArrayNode list = answers.withArray("/" + partition);
                            if (found == null) {
                                list.addNull();
                            } else {
                                ArrayNode answer = list.addArray();
                                answer.add(found.offset()).add(found.timestamp());
                                answer.add(found.leaderEpoch().orElse(null));
                            }
                        });
    }

    private static TopicPartition partition(String name) {
        int dash = name.lastIndexOf('-');
        return new TopicPartition(
                name.substring(0, dash), Integer.parseInt(name.substring(dash + 1)));
    }
}
