import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DeleteRecordsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/**
 * Does to a broker what many clients do, drawn from a seed (3.9 and later): {@code java Churn
 * BOOTSTRAP SEED STEPS SEGMENT_SETTING}.
 *
 * <p>Topics of all kinds come and go; producers with and without ids, transactions that are
 * committed, aborted and left open, compaction, deleted records, committed offsets, and moves
 * between log directories if there are several. What an earlier run left goes on. SEGMENT_SETTING is what the release calls the size of small segments. It ends
 * without closing its producers, amid transactions.
 */
final class Churn {
    private static final String PREFIX = "churn-";
    private static final int MOST_TOPICS = 6;
    private static final int PARTITIONS = 2;
    private static final int KEYS = 40;
    private static final int TRANSACTIONAL_IDS = 4;
    private static final long DAY_MS = 86_400_000L;
    private static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");

    private final Map<String, Object> settings;
    private final Random random;
    private final int seed;
    private final String segmentSetting;
    private final Admin admin;
    private final TreeMap<String, Content> topics = new TreeMap<>();
    private final int broker;
    private final List<String> directories;

    private final Map<String, Client> producers = new HashMap<>();
    private final Map<String, Client> open = new TreeMap<>();
    private int made;

    private Churn(String bootstrap, int seed, String segmentSetting) throws Exception {
        this.settings = Map.of("bootstrap.servers", bootstrap);
        this.random = new Random(seed);
        this.seed = seed;
        this.segmentSetting = segmentSetting;
        this.admin = Admin.create(settings);
        this.broker = admin.describeCluster().nodes().get().iterator().next().id();
        var described = admin.describeLogDirs(List.of(broker)).allDescriptions().get().get(broker);
        this.directories = List.copyOf(new TreeSet<>(described.keySet()));
        for (String name : admin.listTopics().names().get()) {
            if (name.startsWith(PREFIX)) {
                topics.put(name, content(name));
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        var churn = new Churn(arguments[0], Integer.parseInt(arguments[1]), arguments[3]);
        for (int step = 0; step < Integer.parseInt(arguments[2]); step++) {
            try {
                churn.step();
            } catch (ExecutionException failure) {
                // Parts of a broker learn later than others of a topic that was just created. A
                // deletion of records waits for the copy of a move, which may never catch up.
                if (!(failure.getCause() instanceof UnknownTopicOrPartitionException)
                        && !(failure.getCause() instanceof TimeoutException)) {
                    throw failure;
                }
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private void step() throws Exception {
        if (topics.size() < 3) {
            createTopic();
        }
        switch (random.nextInt(24)) {
            case 0, 1 -> createTopic();
            case 2 -> deleteTopic();
            case 3, 4 -> deleteRecords();
            case 5 -> retain();
            case 6 -> commitOffsets();
            case 7 -> move();
            case 8, 9, 10, 11, 12, 13 -> transaction();
            default -> produce();
        }
    }

    private void createTopic() throws Exception {
        if (topics.size() >= MOST_TOPICS) {
            return;
        }
        String name = PREFIX + seed + "-" + made++;
        Map<String, String> config = new HashMap<>();
        config.put(segmentSetting, String.valueOf(10_000 + random.nextInt(50_000)));
        config.put("index.interval.bytes", oneOf("300", "1000", "4096"));
        config.put("cleanup.policy", oneOf("delete", "delete", "compact", "compact,delete"));
        config.put("compression.type", oneOf("producer", "producer", "zstd", "uncompressed"));
        config.put("message.timestamp.type", oneOf("CreateTime", "CreateTime", "LogAppendTime"));
        config.put("preallocate", oneOf("false", "false", "true"));
        config.put("min.cleanable.dirty.ratio", "0.01");
        config.put("delete.retention.ms", oneOf("100", "86400000"));
        config.put("file.delete.delay.ms", "1000");
        admin.createTopics(List.of(new NewTopic(name, PARTITIONS, (short) 1).configs(config)))
                .all()
                .get();
        topics.put(name, content(name));
    }

    private void deleteTopic() throws Exception {
        for (String id : List.copyOf(open.keySet())) {
            end(id, false);
        }
        String name = topic();
        topics.remove(name);
        admin.deleteTopics(List.of(name)).all().get();
    }

    private void deleteRecords() throws Exception {
        var partition = new TopicPartition(topic(), random.nextInt(PARTITIONS));
        long start = offset(partition, OffsetSpec.earliest());
        long end = offset(partition, OffsetSpec.latest());
        var before = RecordsToDelete.beforeOffset(start + random.nextInt((int) (end - start) + 1));
        var policy = new ConfigResource(ConfigResource.Type.TOPIC, partition.topic());
        var config = admin.describeConfigs(List.of(policy)).all().get().get(policy);
        if (config.get("cleanup.policy").value().contains("delete")) {
            var soon = new DeleteRecordsOptions().timeoutMs(5_000);
            admin.deleteRecords(Map.of(partition, before), soon).all().get();
        }
    }

    /** Lets retention by size take the older segments of a topic, or stops it. */
    private void retain() throws Exception {
        var entry = new ConfigEntry("retention.bytes", oneOf("-1", "20000", "100000"));
        var change = List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET));
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic());
        admin.incrementalAlterConfigs(Map.of(resource, change)).all().get();
    }

    /** Moves a replica to a log directory, where it may be already; with one directory, nothing. */
    private void move() throws Exception {
        if (directories.size() > 1) {
            var replica = new TopicPartitionReplica(topic(), random.nextInt(PARTITIONS), broker);
            var directory = directories.get(random.nextInt(directories.size()));
            admin.alterReplicaLogDirs(Map.of(replica, directory)).all().get();
        }
    }

    private void commitOffsets() throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (String name : topics.keySet()) {
            offsets.put(new TopicPartition(name, 0), new OffsetAndMetadata(random.nextInt(1000)));
        }
        admin.alterConsumerGroupOffsets("group-" + random.nextInt(5), offsets).all().get();
    }

    private void produce() throws Exception {
        Client client = producer(random.nextBoolean(), CODECS.get(random.nextInt(CODECS.size())));
        String name = topic();
        for (int batch = 1 + random.nextInt(12); batch > 0; batch--) {
            client.send(batch(name));
        }
    }

    /** Begins a transaction, or goes on with one; ends most of them. */
    private void transaction() throws Exception {
        String id = "transactional-" + random.nextInt(TRANSACTIONAL_IDS);
        if (!open.containsKey(id)) {
            Client client = producers.get(id);
            if (client == null || random.nextInt(5) == 0) {
                client = transactionalProducer(id);
            }
            client.producer.beginTransaction();
            open.put(id, client);
        }
        try {
            for (int batch = 1 + random.nextInt(4); batch > 0; batch--) {
                open.get(id).send(batch(topic()));
            }
        } catch (ExecutionException failure) {
            if (!(failure.getCause() instanceof InvalidTxnStateException)) {
                throw failure;
            }
            // On a busy machine the coordinator has aborted a transaction that was left open.
            open.remove(id);
            producers.remove(id).close();
            return;
        }
        if (random.nextInt(4) > 0) {
            end(id, random.nextInt(3) > 0);
        }
    }

    private void end(String id, boolean commit) {
        Client client = open.remove(id);
        if (commit) {
            client.producer.commitTransaction();
        } else {
            client.producer.abortTransaction();
        }
    }

    private List<Content.Message> batch(String topic) {
        Content content = topics.get(topic);
        List<Content.Message> batch =
                random.nextBoolean()
                        ? content.updates(1 + random.nextInt(30), KEYS)
                        : content.mixed(random.nextInt(PARTITIONS), 30);
        // Compacted topics take no records without a key.
        return batch.stream().filter(message -> message.key() != null).toList();
    }

    private Client producer(boolean idempotent, String codec) {
        String name = (idempotent ? "idempotent-" : "plain-") + codec;
        // Now and then another one, with an id of its own.
        if (random.nextInt(10) == 0 && producers.containsKey(name)) {
            producers.remove(name).close();
        }
        return producers.computeIfAbsent(
                name,
                key -> {
                    Map<String, Object> all = new HashMap<>(settings);
                    all.put("compression.type", codec);
                    all.put("enable.idempotence", idempotent);
                    return new Client(all);
                });
    }

    private Client transactionalProducer(String id) {
        if (producers.containsKey(id)) {
            producers.remove(id).close();
        }
        Map<String, Object> all = new HashMap<>(settings);
        all.put("compression.type", CODECS.get(random.nextInt(CODECS.size())));
        all.put("transactional.id", id);
        var client = new Client(all);
        client.producer.initTransactions();
        producers.put(id, client);
        return client;
    }

    private Content content(String topic) {
        // Of yesterday, so that no record is of the future; or old, so that producers expire.
        long epoch = System.currentTimeMillis() - (random.nextBoolean() ? DAY_MS : 30 * DAY_MS);
        return new Content(topic, 0, epoch);
    }

    private long offset(TopicPartition partition, OffsetSpec which) throws Exception {
        return admin.listOffsets(Map.of(partition, which)).all().get().get(partition).offset();
    }

    private String topic() {
        return new ArrayList<>(topics.keySet()).get(random.nextInt(topics.size()));
    }

    private String oneOf(String... values) {
        return values[random.nextInt(values.length)];
    }
}
