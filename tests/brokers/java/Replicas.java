import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;

/**
 * {@code java Replicas BOOTSTRAP SECONDS BROKERS TOPIC...} has the partition 0 of each topic
 * replicated by exactly these brokers, and waits until all are in sync, but no longer than so many
 * seconds. Prints which are then: {@code {"topic": [1, 2]}}.
 */
final class Replicas {
    public static void main(String[] arguments) throws Exception {
        long until = System.nanoTime() + Long.parseLong(arguments[1]) * 1_000_000_000L;
        List<Integer> brokers = Arrays.stream(arguments[2].split(",")).map(Integer::valueOf).toList();
        Set<String> topics = Arrays.stream(arguments).skip(3).collect(Collectors.toSet());
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            Map<TopicPartition, Optional<NewPartitionReassignment>> wanted = new HashMap<>();
            for (String topic : topics) {
                wanted.put(
                        new TopicPartition(topic, 0),
                        Optional.of(new NewPartitionReassignment(brokers)));
            }
            admin.alterPartitionReassignments(wanted).all().get();
            Map<String, List<Integer>> found = inSync(admin, topics);
            while (!found.values().stream().allMatch(brokers::equals)
                    && System.nanoTime() < until) {
                Thread.sleep(200);
                found = inSync(admin, topics);
            }
            new ObjectMapper().writeValue(System.out, found);
        }
    }

    private static Map<String, List<Integer>> inSync(Admin admin, Set<String> topics)
            throws Exception {
        Map<String, List<Integer>> found = new LinkedHashMap<>();
        admin.describeTopics(topics).allTopicNames().get().forEach((topic, described) ->
                found.put(topic, described.partitions().get(0).isr().stream()
                        .map(Node::id).sorted().toList()));
        return found;
    }
}
