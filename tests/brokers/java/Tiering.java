import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * Moves records of topics to remote storage (4.3 and later): {@code java Tiering BOOTSTRAP}.
 *
 * <p>Reads {@code {"topic": {"round": R, "batches": B, "local": true, "delete": N, "groups": {"name": M}}}} from
 * standard input: B batches are written to partition 0, and, if {@code local}, it waits until all
 * sealed segments are in remote storage alone, if {@code copied}, until they are there too. Then records below N are deleted, if N is there, and groups
 * commit their offsets. Prints the offsets of each topic: {@code {"topic": {"start": S, "local": L,
 * "remote": R, "end": E}}}, where R is the last offset in remote storage, or -1.
 */
final class Tiering {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long PATIENCE_NS = 90_000_000_000L;
    private static final long SETTLED_NS = 3_000_000_000L;

    private final Map<String, Object> settings;
    private final Admin admin;

    private Tiering(String bootstrap) {
        this.settings = Map.of("bootstrap.servers", bootstrap);
        this.admin = Admin.create(settings);
    }

    public static void main(String[] arguments) throws Exception {
        var tiering = new Tiering(arguments[0]);
        Map<String, Map<String, Long>> offsets = new TreeMap<>();
        for (var entry : JSON.readTree(System.in).properties()) {
            offsets.put(entry.getKey(), tiering.move(entry.getKey(), entry.getValue()));
        }
        JSON.writeValue(System.out, offsets);
        Runtime.getRuntime().halt(0);
    }

    private Map<String, Long> move(String topic, JsonNode order) throws Exception {
        var partition = new TopicPartition(topic, 0);
        write(topic, order.path("round").asInt(), order.path("batches").asInt());
        if (order.path("local").asBoolean()) {
            waitUntil(partition, () -> offset(partition, OffsetSpec.earliestLocal())
                    == offset(partition, OffsetSpec.latestTiered()) + 1);
        }
        if (order.path("copied").asBoolean()) {
            waitUntil(partition, () -> offset(partition, OffsetSpec.latestTiered()) >= 0);
        }
        if (order.has("delete")) {
            var before = RecordsToDelete.beforeOffset(order.get("delete").asLong());
            admin.deleteRecords(Map.of(partition, before)).all().get();
        }
        for (var group : order.path("groups").properties()) {
            var committed = new OffsetAndMetadata(group.getValue().asLong());
            admin.alterConsumerGroupOffsets(group.getKey(), Map.of(partition, committed)).all().get();
        }
        return Map.of(
                "start", offset(partition, OffsetSpec.earliest()),
                "local", offset(partition, OffsetSpec.earliestLocal()),
                "remote", offset(partition, OffsetSpec.latestTiered()),
                "end", offset(partition, OffsetSpec.latest()));
    }

    private void write(String topic, int round, int batches) throws Exception {
        var content = new Content(topic, round);
        Map<String, Object> all = new HashMap<>(settings);
        all.put("enable.idempotence", false);
        try (var client = new Client(all)) {
            for (int batch = 0; batch < batches; batch++) {
                client.send(content.mixed(0, 8));
            }
        }
    }

    /** Waits until it holds, and the last offset in remote storage has been the same for long. */
    private void waitUntil(TopicPartition partition, Callable<Boolean> holds) throws Exception {
        long until = System.nanoTime() + PATIENCE_NS;
        long seen = -1;
        long since = System.nanoTime();
        while (seen < 0 || !holds.call() || System.nanoTime() - since < SETTLED_NS) {
            long remote = offset(partition, OffsetSpec.latestTiered());
            if (remote != seen) {
                seen = remote;
                since = System.nanoTime();
            }
            if (System.nanoTime() > until) {
                throw new IllegalStateException(partition + ": in remote storage up to " + remote);
            }
            Thread.sleep(200);
        }
    }

    private long offset(TopicPartition partition, OffsetSpec which) throws Exception {
        return admin.listOffsets(Map.of(partition, which)).partitionResult(partition).get().offset();
    }
}
