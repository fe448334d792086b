import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.config.ConfigResource;

/**
 * Creates topics, also in the place of others, or tells which settings the broker has in force for them.
 *
 * <p>{@code java Topics BOOTSTRAP create} reads from standard input, {@code recreate} reads the
 * same and deletes what has these names before, and {@code describe}
 * prints for all topics, internal ones too:
 * {@code {"topic": {"partitions": N, "config": {"name": "value"}}}}. Described are the settings
 * that are not Kafka's default, and always those of {@link #ALWAYS}.
 */
final class Topics {
    private static final Set<String> ALWAYS =
            Set.of(
                    "cleanup.policy",
                    "index.interval.bytes",
                    "segment.bytes",
                    "segment.index.bytes");
    private static final ObjectMapper JSON =
            new ObjectMapper()
                    .enable(SerializationFeature.INDENT_OUTPUT)
                    .enable(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS);

    public static void main(String[] arguments) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            switch (arguments[1]) {
                case "create" -> create(admin, JSON.readTree(System.in));
                case "recreate" -> recreate(admin, JSON.readTree(System.in));
                case "describe" -> JSON.writeValue(System.out, describe(admin));
                default -> throw new IllegalArgumentException(
                        "expected create, recreate or describe, found " + arguments[1]);
            }
        }
    }

    private static void create(Admin admin, JsonNode wanted) throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        for (var names = wanted.fieldNames(); names.hasNext(); ) {
            String name = names.next();
            Map<String, String> config = new HashMap<>();
            wanted.get(name).get("config").properties()
                    .forEach(entry -> config.put(entry.getKey(), entry.getValue().asText()));
            int partitions = wanted.get(name).get("partitions").asInt();
            topics.add(new NewTopic(name, partitions, (short) 1).configs(config));
        }
        admin.createTopics(topics).all().get();
    }

    private static void recreate(Admin admin, JsonNode wanted) throws Exception {
        List<String> names = new ArrayList<>();
        wanted.fieldNames().forEachRemaining(names::add);
        admin.deleteTopics(names).all().get();
        create(admin, wanted);
    }

    private static Map<String, Object> describe(Admin admin) throws Exception {
        var names = admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get();
        var descriptions = admin.describeTopics(names).allTopicNames().get();
        List<ConfigResource> resources = new ArrayList<>();
        names.forEach(name -> resources.add(new ConfigResource(ConfigResource.Type.TOPIC, name)));
        var configs = admin.describeConfigs(resources).all().get();
        Map<String, Object> described = new HashMap<>();
        configs.forEach(
                (resource, config) -> {
                    ObjectNode topic = JSON.createObjectNode();
                    topic.put("partitions", descriptions.get(resource.name()).partitions().size());
                    ObjectNode settings = topic.putObject("config");
                    config.entries().stream()
                            .filter(entry ->
                                    entry.source() != ConfigEntry.ConfigSource.DEFAULT_CONFIG
                                            || ALWAYS.contains(entry.name()))
                            .sorted((left, right) -> left.name().compareTo(right.name()))
                            .forEach(entry -> settings.put(entry.name(), entry.value()));
                    described.put(resource.name(), topic);
                });
        return described;
    }
}
