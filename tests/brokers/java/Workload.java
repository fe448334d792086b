import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes one round of the fixtures' records: {@code java Workload.java BOOTSTRAP ROUND [hang]}.
 *
 * <p>Keys, values, headers, create times and batch boundaries depend on the topic and the round
 * alone, so two runs and two releases write the same records. Rounds count from 1; each adds to
 * every topic, and what changes over time (compaction, deleted records) goes on in the next. With
 * {@code hang} it ends amid a transaction, without closing its producer.
 */
final class Workload {
    /** Create times begin here (2026-09-21), a day later each round. */
    private static final long EPOCH_MS = 1_790_000_000_000L;
    /** Idempotent producers write in 2033, so that none expires whenever a broker loads the log. */
    private static final long IDEMPOTENT_EPOCH_MS = 2_000_000_000_000L;
    private static final long DAY_MS = 86_400_000L;
    private static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");

    private final String bootstrap;
    private final int round;

    private Workload(String bootstrap, int round) {
        this.bootstrap = bootstrap;
        this.round = round;
    }

    public static void main(String[] arguments) throws Exception {
        var workload = new Workload(arguments[0], Integer.parseInt(arguments[1]));
        workload.codecs();
        workload.logAppendTime();
        workload.idempotent();
        workload.plain("preallocated", 12);
        workload.plain("a.b_c-1", 3);
        workload.compacted();
        workload.deletedRecords();
        workload.plain("groups", 3);
        workload.transactions();
        if (List.of(arguments).contains("hang")) {
            workload.hang();
        }
    }

    private void codecs() throws Exception {
        for (String codec : CODECS) {
            Content content = content("codec-" + codec);
            try (var producer = producer("compression.type", codec)) {
                for (int batch = 0; batch < 6; batch++) {
                    content.send(producer, 0, 1 + content.random.nextInt(12));
                }
            }
        }
    }

    private void logAppendTime() throws Exception {
        Content content = content("log-append-time");
        try (var zstd = producer("compression.type", "zstd");
                var none = producer()) {
            for (int batch = 0; batch < 6; batch++) {
                content.send(batch % 2 == 0 ? zstd : none, 0, 5);
            }
        }
    }

    private void idempotent() throws Exception {
        Content content = new Content("idempotent", round, IDEMPOTENT_EPOCH_MS);
        try (var one = idempotentProducer();
                var two = idempotentProducer("compression.type", "lz4")) {
            for (int batch = 0; batch < 8; batch++) {
                content.send(batch % 3 == 0 ? two : one, 0, 1 + content.random.nextInt(6));
            }
        }
    }

    private void plain(String topic, int batches) throws Exception {
        Content content = content(topic);
        try (var producer = producer()) {
            for (int batch = 0; batch < batches; batch++) {
                content.send(producer, 0, 3);
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
                content.update(producer, 8);
            }
        }
        try (var producer = transactionalProducer("compacting", "lz4")) {
            producer.beginTransaction();
            content.update(producer, 8);
            producer.abortTransaction();
            producer.beginTransaction();
            content.update(producer, 8);
            producer.commitTransaction();
        }
        try (var gzip = producer("compression.type", "gzip");
                var none = producer()) {
            for (int batch = 0; batch < 6; batch++) {
                content.update(batch % 2 == 0 ? gzip : none, 20);
            }
        }
    }

    private void deletedRecords() throws Exception {
        Content content = content("deleted-records");
        int inBatch = 4;
        try (var producer = producer("compression.type", "zstd")) {
            for (int batch = 0; batch < 16; batch++) {
                content.send(producer, batch % 2, inBatch);
            }
        }
        // Both within a batch: of partition 0 in ever later segments, of partition 1 in the first.
        deleteBefore(new TopicPartition("deleted-records", 0), (6L * round - 3) * inBatch + 2);
        deleteBefore(new TopicPartition("deleted-records", 1), inBatch + round);
    }

    private void deleteBefore(TopicPartition partition, long offset) throws Exception {
        var before = Map.of(partition, RecordsToDelete.beforeOffset(offset));
        try (var admin = Admin.create(settings())) {
            admin.deleteRecords(before).all().get();
        }
    }

    /** Transactions of three producers beside each other, and records outside any transaction. */
    private void transactions() throws Exception {
        Content content = content("transactions");
        Content transfers = content("transfers");
        try (var one = transactionalProducer("one", "none");
                var two = transactionalProducer("two", "zstd");
                var three = transactionalProducer("three", "none");
                var outside = producer()) {
            for (int turn = 0; turn < 3; turn++) {
                one.beginTransaction();
                content.send(one, 0, 3);
                two.beginTransaction();
                content.send(two, 0, 4);
                transfers.send(two, 0, 3);
                content.send(outside, 0, 2);
                three.beginTransaction();
                transfers.send(three, 1, 5);
                content.send(one, 0, 2);
                end(two, turn % 2 == 0);
                content.send(three, 0, 2);
                end(three, turn % 2 == 1);
                transfers.send(outside, turn % 2, 1);
                end(one, turn < 2);
            }
        }
    }

    /** A transaction that nobody ends, with records of others behind it. */
    private void hang() throws Exception {
        Content content = new Content("transactions", round + 1, EPOCH_MS);
        Content transfers = new Content("transfers", round + 1, EPOCH_MS);
        var hanging = transactionalProducer("hanging", "none");
        hanging.beginTransaction();
        content.send(hanging, 0, 3);
        transfers.send(hanging, 1, 2);
        try (var other = transactionalProducer("one", "none")) {
            for (boolean commit : List.of(true, false)) {
                other.beginTransaction();
                content.send(other, 0, 3);
                end(other, commit);
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static void end(KafkaProducer<byte[], byte[]> producer, boolean commit) {
        if (commit) {
            producer.commitTransaction();
        } else {
            producer.abortTransaction();
        }
    }

    private Content content(String topic) {
        return new Content(topic, round, EPOCH_MS);
    }

    /** A producer without an id of its own, which sends a batch only when flushed. */
    private KafkaProducer<byte[], byte[]> producer(String... settings) {
        Map<String, Object> all = settings(settings);
        all.put("enable.idempotence", false);
        all.put("acks", "1");
        return open(all);
    }

    private KafkaProducer<byte[], byte[]> idempotentProducer(String... settings) {
        return open(settings(settings));
    }

    private KafkaProducer<byte[], byte[]> transactionalProducer(String id, String codec) {
        Map<String, Object> all = settings("compression.type", codec);
        all.put("transactional.id", id);
        // The most that a broker grants by default: the hanging one must outlive the run.
        all.put("transaction.timeout.ms", 900_000);
        var producer = open(all);
        producer.initTransactions();
        return producer;
    }

    private static KafkaProducer<byte[], byte[]> open(Map<String, Object> settings) {
        settings.put("linger.ms", 60_000);
        settings.put("batch.size", 60_000);
        var bytes = new ByteArraySerializer();
        return new KafkaProducer<>(settings, bytes, bytes);
    }

    private Map<String, Object> settings(String... pairs) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        for (int index = 0; index < pairs.length; index += 2) {
            settings.put(pairs[index], pairs[index + 1]);
        }
        return settings;
    }

    /** The records of one topic in one round, drawn from a seed. */
    private static final class Content {
        private static final List<String> WORDS =
                List.of("order", "accepted", "payment", "parcel", "customer", "refund", "Zürich",
                        "東京", "pending", "shipped", "{\"id\":", "}", "\"total\":", "warehouse");
        private static final byte[] CONTROL = "\0\u001b[31m\r\n\t\u0085\u202e\"\\".getBytes(UTF_8);
        private static final byte[] NOT_UTF_8 = {-1, 0, -61, 40, -19, -96, -128};
        private static final byte[] EMPTY = {};

        private final String topic;
        private final Random random;
        private long timestamp;
        private int made;

        Content(String topic, int round, long epoch) {
            this.topic = topic;
            this.random = new Random(31L * topic.hashCode() + round);
            this.timestamp = epoch + round * DAY_MS;
        }

        /** Sends one batch of {@code count} records, and waits until the broker has it. */
        void send(KafkaProducer<byte[], byte[]> producer, int partition, int count)
                throws Exception {
            List<ProducerRecord<byte[], byte[]>> batch = new ArrayList<>();
            for (int index = 0; index < count; index++) {
                batch.add(next(partition));
            }
            send(producer, batch);
        }

        /** Sends one batch that gives new values to some of 24 keys, or takes them away. */
        void update(KafkaProducer<byte[], byte[]> producer, int count) throws Exception {
            List<ProducerRecord<byte[], byte[]>> batch = new ArrayList<>();
            for (int index = 0; index < count; index++) {
                int number = random.nextInt(24);
                byte[] key = number == 0 ? EMPTY : ("key-" + number).getBytes(UTF_8);
                byte[] value = random.nextInt(5) == 0 ? null : text(4 + random.nextInt(10));
                batch.add(new ProducerRecord<>(topic, 0, tick(), key, value));
            }
            send(producer, batch);
        }

        private static void send(
                KafkaProducer<byte[], byte[]> producer, List<ProducerRecord<byte[], byte[]>> batch)
                throws Exception {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (var record : batch) {
                sent.add(producer.send(record));
            }
            producer.flush();
            for (var acknowledged : sent) {
                acknowledged.get();
            }
        }

        /** Of ten records each has another oddity that keys, values and headers can have. */
        private ProducerRecord<byte[], byte[]> next(int partition) {
            byte[] key = ("key-" + random.nextInt(50)).getBytes(UTF_8);
            byte[] value = text(2 + random.nextInt(14));
            int kind = made++ % 10;
            switch (kind) {
                case 1 -> key = null;
                case 2 -> value = null;
                case 3 -> key = EMPTY;
                case 4 -> value = EMPTY;
                case 5 -> key = CONTROL;
                case 6 -> value = CONTROL;
                case 7 -> key = NOT_UTF_8;
                case 8 -> random.nextBytes(value = new byte[24]);
                default -> { }
            }
            var record = new ProducerRecord<>(topic, partition, tick(), key, value);
            addHeaders(record.headers(), kind);
            return record;
        }

        private void addHeaders(Headers headers, int kind) {
            switch (kind) {
                case 0 -> headers.add("trace", text(1)).add("trace", text(1));
                case 3 -> headers.add("nothing", null).add("empty", EMPTY);
                case 6 -> headers.add("größe", NOT_UTF_8).add("", CONTROL);
                case 9 -> headers.add("line\nbreak\u001b[0m", text(2));
                default -> { }
            }
        }

        private byte[] text(int words) {
            StringBuilder text = new StringBuilder();
            for (int index = 0; index < words; index++) {
                text.append(WORDS.get(random.nextInt(WORDS.size()))).append(' ');
            }
            return text.toString().getBytes(UTF_8);
        }

        /** Mostly forward; now and then back, as with producers whose clocks differ. */
        private long tick() {
            timestamp += random.nextInt(10) == 0 ? -5_000 : random.nextInt(2_000);
            return timestamp;
        }
    }
}
