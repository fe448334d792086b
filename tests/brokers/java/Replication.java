import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.config.ConfigResource;

/**
 * Does to a cluster of several brokers what standard input says, a JSON object a line, and answers
 * each with a line (3.9 and later): {@code java Replication BOOTSTRAP}.
 *
 * <p>Topics have one partition. What is written depends on the topic and the seed alone.
 */
final class Replication {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int KEYS = 40;
    private static final long DAY_MS = 86_400_000L;

    private final Map<String, Object> settings;
    private final Admin admin;

    private Replication(String bootstrap) {
        // All brokers that a client has heard of may be away.
        this.settings =
                Map.of(
                        "bootstrap.servers", bootstrap,
                        "reconnect.backoff.max.ms", 200,
                        "metadata.recovery.strategy", "rebootstrap");
        this.admin = Admin.create(settings);
    }

    public static void main(String[] arguments) throws Exception {
        var replication = new Replication(arguments[0]);
        var input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(JSON.writeValueAsString(replication.answer(JSON.readTree(line))));
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private Object answer(JsonNode order) throws Exception {
        return switch (order.get("do").asText()) {
            case "create" -> create(order);
            case "alter" -> alter(order);
            case "delete" -> delete(order);
            case "write" -> write(order);
            case "delete-records" -> deleteRecords(order);
            case "elect" -> elect(order);
            case "move" -> move(order);
            case "wait" -> waitUntilInSync(order);
            default -> throw new IllegalArgumentException("unknown order " + order);
        };
    }

    /** {@code topics}: name to {@code brokers}, which replicate it, and {@code config}. */
    private Object create(JsonNode order) throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        order.get("topics").properties().forEach(entry -> {
            Map<String, String> config = new HashMap<>();
            entry.getValue().get("config").properties()
                    .forEach(each -> config.put(each.getKey(), each.getValue().asText()));
            List<Integer> brokers = numbers(entry.getValue().get("brokers"));
            topics.add(new NewTopic(entry.getKey(), Map.of(0, brokers)).configs(config));
        });
        admin.createTopics(topics).all().get();
        return Map.of();
    }

    /** {@code topics} get the settings {@code config}. */
    private Object alter(JsonNode order) throws Exception {
        List<AlterConfigOp> changes = new ArrayList<>();
        order.get("config").properties().forEach(each ->
                changes.add(new AlterConfigOp(
                        new ConfigEntry(each.getKey(), each.getValue().asText()),
                        AlterConfigOp.OpType.SET)));
        for (String topic : names(order)) {
            var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            admin.incrementalAlterConfigs(Map.of(resource, changes)).all().get();
        }
        return Map.of();
    }

    private Object delete(JsonNode order) throws Exception {
        admin.deleteTopics(names(order)).all().get();
        return Map.of();
    }

    /**
     * {@code batches} batches go to each of {@code topics}, as a new producer of a {@code kind}
     * (plain, idempotent, transactional; updates is plain, and has few keys) sends them.
     */
    private Object write(JsonNode order) throws Exception {
        for (String topic : names(order)) {
            write(topic, order);
        }
        return Map.of();
    }

    private void write(String topic, JsonNode order) throws Exception {
        int seed = order.get("seed").asInt();
        String kind = order.get("kind").asText();
        var content = new Content(topic, seed, Content.EPOCH_MS - seed * DAY_MS);
        var random = new Random(31L * seed + topic.hashCode());
        boolean transactional = kind.equals("transactional");
        Map<String, Object> all = new HashMap<>(settings);
        all.put("compression.type", order.get("codec").asText());
        all.put("enable.idempotence", kind.equals("idempotent") || transactional);
        if (transactional) {
            all.put("transactional.id", topic + "-" + seed);
        }
        try (var client = new Client(all)) {
            if (transactional) {
                client.producer.initTransactions();
            }
            for (int batch = order.get("batches").asInt(); batch > 0; batch--) {
                if (transactional) {
                    client.producer.beginTransaction();
                }
                client.send(
                        kind.equals("updates")
                                ? content.updates(1 + random.nextInt(12), KEYS)
                                : content.mixed(0, 8));
                if (transactional && random.nextInt(3) > 0) {
                    client.producer.commitTransaction();
                } else if (transactional) {
                    client.producer.abortTransaction();
                }
            }
        }
        if (transactional) {
            // Not before the marker of the last transaction is written.
            try (var next = new Client(all)) {
                next.producer.initTransactions();
            }
        }
    }

    /** Deletes all records of {@code topics} but the last {@code kept}; tells their log starts. */
    private Object deleteRecords(JsonNode order) throws Exception {
        Map<String, Long> starts = new TreeMap<>();
        for (String topic : names(order)) {
            var partition = new TopicPartition(topic, 0);
            var latest = admin.listOffsets(Map.of(partition, OffsetSpec.latest()));
            long end = latest.partitionResult(partition).get().offset();
            var before = RecordsToDelete.beforeOffset(end - order.get("kept").asLong());
            var deleted = admin.deleteRecords(Map.of(partition, before));
            starts.put(topic, deleted.lowWatermarks().get(partition).get().lowWatermark());
        }
        return starts;
    }

    /**
     * Has the first replica that lives lead, in sync or not, as kafka-leader-election.sh does. A
     * controller refuses it until it knows that the leader before is gone.
     */
    private Object elect(JsonNode order) throws Exception {
        Set<TopicPartition> partitions = new HashSet<>();
        names(order).forEach(topic -> partitions.add(new TopicPartition(topic, 0)));
        long until = System.nanoTime() + order.get("seconds").asLong() * 1_000_000_000L;
        while (!partitions.isEmpty() && System.nanoTime() < until) {
            admin.electLeaders(ElectionType.UNCLEAN, partitions).partitions().get()
                    .forEach((partition, error) -> {
                        if (error.isEmpty()) {
                            partitions.remove(partition);
                        }
                    });
            Thread.sleep(100);
        }
        return Map.of();
    }

    /** Moves the replicas of {@code topics} on {@code broker} to its log directory {@code to}. */
    private Object move(JsonNode order) throws Exception {
        Map<TopicPartitionReplica, String> moves = new HashMap<>();
        for (String topic : names(order)) {
            var replica = new TopicPartitionReplica(topic, 0, order.get("broker").asInt());
            moves.put(replica, order.get("to").asText());
        }
        admin.alterReplicaLogDirs(moves).all().get();
        return Map.of();
    }

    /**
     * Waits until exactly {@code brokers} are in sync and one of them leads, no longer than
     * {@code seconds}; tells leaders, replicas in sync and ids by topic.
     */
    private Object waitUntilInSync(JsonNode order) throws Exception {
        List<Integer> brokers = numbers(order.get("brokers"));
        long until = System.nanoTime() + order.get("seconds").asLong() * 1_000_000_000L;
        while (true) {
            Map<String, Map<String, Object>> found = new TreeMap<>();
            try {
                admin.describeTopics(names(order)).allTopicNames().get()
                        .forEach((topic, described) -> found.put(topic, state(described)));
            } catch (ExecutionException failure) {
                // A broker that has just started may not know a topic yet.
                if (System.nanoTime() > until) {
                    throw failure;
                }
            }
            boolean ready = !found.isEmpty() && found.values().stream().allMatch(state ->
                    brokers.equals(state.get("in_sync")) && brokers.contains(state.get("leader")));
            if (ready || System.nanoTime() > until) {
                return Map.of("ready", ready, "topics", found);
            }
            Thread.sleep(100);
        }
    }

    private static Map<String, Object> state(TopicDescription described) {
        var partition = described.partitions().get(0);
        return Map.of(
                "id", described.topicId().toString(),
                "leader", partition.leader() == null ? -1 : partition.leader().id(),
                "in_sync", partition.isr().stream().map(Node::id).sorted().toList());
    }

    private static List<String> names(JsonNode order) {
        List<String> names = new ArrayList<>();
        order.get("topics").forEach(name -> names.add(name.asText()));
        return names;
    }

    private static List<Integer> numbers(JsonNode listed) {
        List<Integer> numbers = new ArrayList<>();
        listed.forEach(number -> numbers.add(number.asInt()));
        return numbers;
    }
}
