import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.common.TopicPartition;

/**
 * Writes one round of what needs producer ids or an admin client (1.1 and later): {@code java
 * Workload BOOTSTRAP ROUND CODEC [hang]}.
 *
 * <p>Batch boundaries depend on the topic and the round alone, like the records. Rounds count from
 * 1; each adds to every topic, and what changes over time (compaction, deleted records) goes on in
 * the next. CODEC is the newest that the release has. With {@code hang} it ends amid a transaction,
 * without closing its producer.
 */
final class Workload {
    /** Idempotent producers write in 2033, so that none expires whenever a broker loads the log. */
    private static final long IDEMPOTENT_EPOCH_MS = 2_000_000_000_000L;

    /** Few, so that the cleaner empties whole batches. */
    private static final int KEYS = 24;

    private final String bootstrap;
    private final int round;
    private final String newestCodec;

    private Workload(String bootstrap, int round, String newestCodec) {
        this.bootstrap = bootstrap;
        this.round = round;
        this.newestCodec = newestCodec;
    }

    public static void main(String[] arguments) throws Exception {
        var workload = new Workload(arguments[0], Integer.parseInt(arguments[1]), arguments[2]);
        workload.idempotent();
        workload.compacted();
        workload.deletedRecords();
        workload.transactions();
        if (List.of(arguments).contains("hang")) {
            workload.hang();
        }
    }

    private void idempotent() throws Exception {
        Content content = new Content("idempotent", round, IDEMPOTENT_EPOCH_MS);
        try (var one = idempotentProducer();
                var two = idempotentProducer("compression.type", "lz4")) {
            for (int batch = 0; batch < 8; batch++) {
                (batch % 3 == 0 ? two : one).send(content.mixed(0, 6));
            }
        }
    }

    /**
     * Values that later ones replace, tombstones, an aborted and a committed transaction. Each of
     * the short-lived producers leaves a batch that compaction may empty but must keep.
     */
    private void compacted() throws Exception {
        Content content = content("compacted");
        for (int life = 0; life < 3; life++) {
            try (var producer = idempotentProducer("compression.type", "snappy")) {
                producer.send(content.updates(8, KEYS));
            }
        }
        try (var producer = transactionalProducer("compacting", "lz4")) {
            producer.producer.beginTransaction();
            producer.send(content.updates(8, KEYS));
            producer.producer.abortTransaction();
            producer.producer.beginTransaction();
            producer.send(content.updates(8, KEYS));
            producer.producer.commitTransaction();
        }
        try (var gzip = producer("compression.type", "gzip");
                var none = producer()) {
            for (int batch = 0; batch < 6; batch++) {
                (batch % 2 == 0 ? gzip : none).send(content.updates(20, KEYS));
            }
        }
    }

    private void deletedRecords() throws Exception {
        Content content = content("deleted-records");
        int inBatch = 4;
        try (var producer = producer("compression.type", newestCodec)) {
            for (int batch = 0; batch < 16; batch++) {
                producer.send(content.batch(batch % 2, inBatch));
            }
        }
        // Both within a batch: of partition 0 in ever later segments, of partition 1 in the first.
        deleteBefore(new TopicPartition("deleted-records", 0), (6L * round - 3) * inBatch + 2);
        deleteBefore(new TopicPartition("deleted-records", 1), inBatch + round);
    }

    private void deleteBefore(TopicPartition partition, long offset) throws Exception {
        var before = Map.of(partition, RecordsToDelete.beforeOffset(offset));
        try (var admin = AdminClient.create(settings())) {
            admin.deleteRecords(before).all().get();
        }
    }

    /** Transactions of three producers beside each other, and records outside any transaction. */
    private void transactions() throws Exception {
        Content content = content("transactions");
        Content transfers = content("transfers");
        try (var one = transactionalProducer("one", "none");
                var two = transactionalProducer("two", newestCodec);
                var three = transactionalProducer("three", "none");
                var outside = producer()) {
            for (int turn = 0; turn < 3; turn++) {
                one.producer.beginTransaction();
                one.send(content.batch(0, 3));
                two.producer.beginTransaction();
                two.send(content.batch(0, 4));
                two.send(transfers.batch(0, 3));
                outside.send(content.batch(0, 2));
                three.producer.beginTransaction();
                three.send(transfers.batch(1, 5));
                one.send(content.batch(0, 2));
                end(two, turn % 2 == 0);
                three.send(content.batch(0, 2));
                end(three, turn % 2 == 1);
                outside.send(transfers.batch(turn % 2, 1));
                end(one, turn < 2);
            }
        }
    }

    /** A transaction that nobody ends, with records of others behind it. */
    private void hang() throws Exception {
        Content content = new Content("transactions", round + 1);
        Content transfers = new Content("transfers", round + 1);
        var hanging = transactionalProducer("hanging", "none");
        hanging.producer.beginTransaction();
        hanging.send(content.batch(0, 3));
        hanging.send(transfers.batch(1, 2));
        try (var other = transactionalProducer("one", "none")) {
            for (boolean commit : List.of(true, false)) {
                other.producer.beginTransaction();
                other.send(content.batch(0, 3));
                end(other, commit);
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static void end(Client client, boolean commit) {
        if (commit) {
            client.producer.commitTransaction();
        } else {
            client.producer.abortTransaction();
        }
    }

    private Content content(String topic) {
        return new Content(topic, round);
    }

    private Client producer(String... settings) {
        Map<String, Object> all = settings(settings);
        all.put("enable.idempotence", false);
        all.put("acks", "1");
        return new Client(all);
    }

    private Client idempotentProducer(String... settings) {
        Map<String, Object> all = settings(settings);
        all.put("enable.idempotence", true);
        return new Client(all);
    }

    private Client transactionalProducer(String id, String codec) {
        Map<String, Object> all = settings("compression.type", codec);
        all.put("transactional.id", id);
        // The most that a broker grants by default: the hanging one must outlive the run.
        all.put("transaction.timeout.ms", 900_000);
        var client = new Client(all);
        client.producer.initTransactions();
        return client;
    }

    private Map<String, Object> settings(String... pairs) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        for (int index = 0; index < pairs.length; index += 2) {
            settings.put(pairs[index], pairs[index + 1]);
        }
        return settings;
    }
}
