import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Lets one round of consumer groups read and commit: {@code java Groups BOOTSTRAP ROUND
 * [consumer]}.
 *
 * <p>A classic group, one with a static member, one that is deleted again, with {@code consumer} one
 * of the newer protocol, and offsets sent in a committed and in an aborted transaction. All read
 * the topic {@code groups}, which must hold records that they have not read.
 */
final class Groups {
    private static final String TOPIC = "groups";

    private final String bootstrap;
    private final int round;

    private Groups(String bootstrap, int round) {
        this.bootstrap = bootstrap;
        this.round = round;
    }

    public static void main(String[] arguments) throws Exception {
        var groups = new Groups(arguments[0], Integer.parseInt(arguments[1]));
        groups.join("classic");
        // A session longer than the run: its end would append to the log behind a reader's back.
        groups.join("classic-static",
                "group.instance.id", "member-1", "session.timeout.ms", "1800000");
        if (List.of(arguments).contains("consumer")) {
            groups.join("modern", "group.protocol", "consumer");
        }
        groups.vanish();
        groups.transactional();
    }

    private void join(String group, String... settings) {
        try (var consumer = consumer(group, settings)) {
            consumer.subscribe(List.of(TOPIC));
            long deadline = System.nanoTime() + Duration.ofSeconds(60).toNanos();
            while (consumer.poll(Duration.ofMillis(100)).isEmpty()) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("group " + group + " reads nothing");
                }
            }
            consumer.commitSync();
        }
    }

    private void vanish() throws Exception {
        String group = "gone-" + round;
        join(group);
        try (var admin = Admin.create(settings())) {
            admin.deleteConsumerGroups(List.of(group)).all().get();
        }
    }

    private void transactional() {
        var offset = new OffsetAndMetadata(round, "from a transaction");
        var bytes = new ByteArraySerializer();
        var settings = settings("transactional.id", "group-offsets");
        try (var consumer = consumer("transactional");
                var producer = new KafkaProducer<>(settings, bytes, bytes)) {
            producer.initTransactions();
            for (boolean commit : List.of(true, false)) {
                producer.beginTransaction();
                producer.sendOffsetsToTransaction(
                        Map.of(new TopicPartition(TOPIC, 0), offset), consumer.groupMetadata());
                if (commit) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
    }

    private KafkaConsumer<byte[], byte[]> consumer(String group, String... pairs) {
        Map<String, Object> settings = settings(pairs);
        settings.put("group.id", group);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", false);
        var bytes = new ByteArrayDeserializer();
        return new KafkaConsumer<>(settings, bytes, bytes);
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
