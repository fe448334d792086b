import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/**
 * Writes to topics that join one after the other, until its input ends: {@code java Writing
 * BOOTSTRAP SEED SEGMENT_SETTING}.
 *
 * <p>Records without transactions, and three transactional producers beside each other whose
 * transactions go over several partitions, are committed or aborted, and last over several segments.
 * A new topic has a copy on each broker, at most two. SEGMENT_SETTING is what the release calls the
 * size of small segments. All transactions are ended before it ends.
 */
final class Writing {
    private static final int MOST_TOPICS = 8;
    private static final int PARTITIONS = 2;
    private static final int STEPS_PER_TOPIC = 100;

    private final Map<String, Object> settings;
    private final Random random;
    private final String segmentSetting;
    private final Admin admin;
    private final List<Content> topics = new ArrayList<>();
    private final Client plain;
    private final List<Client> producers = new ArrayList<>();
    private final boolean[] open = new boolean[3];

    private Writing(String bootstrap, int seed, String segmentSetting) {
        this.settings = Map.of("bootstrap.servers", bootstrap);
        this.random = new Random(seed);
        this.segmentSetting = segmentSetting;
        this.admin = Admin.create(settings);
        this.plain = new Client(settings);
        for (int number = 0; number < open.length; number++) {
            var client = new Client(Map.of("bootstrap.servers", bootstrap,
                    "transactional.id", "writing-" + number));
            client.producer.initTransactions();
            producers.add(client);
        }
    }

    public static void main(String[] arguments) throws Exception {
        var writing = new Writing(arguments[0], Integer.parseInt(arguments[1]), arguments[2]);
        for (int step = 0; !ended(); step++) {
            if (step % STEPS_PER_TOPIC == 0 && writing.topics.size() < MOST_TOPICS) {
                writing.createTopic();
            }
            writing.step();
            TimeUnit.MILLISECONDS.sleep(5);
        }
        for (int number = 0; number < writing.open.length; number++) {
            writing.end(number);
        }
        Runtime.getRuntime().halt(0);
    }

    private static boolean ended() throws IOException {
        return System.in.available() > 0;
    }

    private void createTopic() throws Exception {
        String name = "writing-" + topics.size();
        short copies = (short) Math.min(admin.describeCluster().nodes().get().size(), 2);
        var topic = new NewTopic(name, PARTITIONS, copies)
                .configs(Map.of(segmentSetting, "10000", "retention.ms", "-1"));
        admin.createTopics(List.of(topic)).all().get();
        for (boolean known = false; !known; ) {
            try {
                known = admin.describeTopics(List.of(name)).allTopicNames().get()
                        .get(name).partitions().stream().allMatch(each -> each.leader() != null);
            } catch (ExecutionException failure) {
                // A broker learns later than the controller of a topic that was just created.
                if (!(failure.getCause() instanceof UnknownTopicOrPartitionException)) {
                    throw failure;
                }
            }
        }
        topics.add(new Content(name, 1));
    }

    private void step() throws Exception {
        var content = topics.get(random.nextInt(topics.size()));
        var batch = content.mixed(random.nextInt(PARTITIONS), 20);
        int number = random.nextInt(open.length + 1);
        if (number == open.length) {
            plain.send(batch);
            return;
        }
        if (!open[number]) {
            producers.get(number).producer.beginTransaction();
            open[number] = true;
        }
        producers.get(number).send(batch);
        if (random.nextInt(12) == 0) {
            end(number);
        }
    }

    private void end(int number) {
        if (open[number]) {
            var producer = producers.get(number).producer;
            if (random.nextInt(3) == 0) {
                producer.abortTransaction();
            } else {
                producer.commitTransaction();
            }
            open[number] = false;
        }
    }
}
