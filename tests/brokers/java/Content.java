import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/**
 * The records of one topic in one round, drawn from a seed.
 *
 * <p>They depend on the topic and the round alone, so two runs and two releases write the same.
 */
final class Content {
    /** Create times begin here (2026-09-21), a day later each round. */
    static final long EPOCH_MS = 1_790_000_000_000L;

    private static final long DAY_MS = 86_400_000L;
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

    /** A record to be sent; clients leave out what their release does not know. */
    record Message(
            String topic,
            int partition,
            long timestamp,
            byte[] key,
            byte[] value,
            List<Header> headers) {}

    record Header(String key, byte[] value) {}

    Content(String topic, int round) {
        this(topic, round, EPOCH_MS);
    }

    Content(String topic, int round, long epoch) {
        this.topic = topic;
        this.random = new Random(31L * topic.hashCode() + round);
        this.timestamp = epoch + round * DAY_MS;
    }

    /** One batch of at most {@code most} records, and at least one. */
    List<Message> mixed(int partition, int most) {
        return batch(partition, 1 + random.nextInt(most));
    }

    /** The same without headers, which the older formats cannot hold. */
    List<Message> bare(int partition, int most) {
        return mixed(partition, most).stream()
                .map(full ->
                        new Message(
                                full.topic(),
                                full.partition(),
                                full.timestamp(),
                                full.key(),
                                full.value(),
                                List.of()))
                .toList();
    }

    /** One batch of {@code count} records. */
    List<Message> batch(int partition, int count) {
        List<Message> batch = new ArrayList<>();
        for (int index = 0; index < count; index++) {
            batch.add(next(partition));
        }
        return batch;
    }

    /** One batch that gives new values to some of {@code keys} keys, or takes them away. */
    List<Message> updates(int count, int keys) {
        List<Message> batch = new ArrayList<>();
        for (int index = 0; index < count; index++) {
            int number = random.nextInt(keys);
            byte[] key = number == 0 ? EMPTY : ("key-" + number).getBytes(UTF_8);
            byte[] value = random.nextInt(5) == 0 ? null : text(4 + random.nextInt(10));
            batch.add(new Message(topic, 0, tick(), key, value, List.of()));
        }
        return batch;
    }

    /** Of ten records each has another oddity that keys, values and headers can have. */
    private Message next(int partition) {
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
        return new Message(topic, partition, tick(), key, value, headers(kind));
    }

    private List<Header> headers(int kind) {
        return switch (kind) {
            case 0 -> List.of(new Header("trace", text(1)), new Header("trace", text(1)));
            case 3 -> List.of(new Header("nothing", null), new Header("empty", EMPTY));
            case 6 -> List.of(new Header("größe", NOT_UTF_8), new Header("", CONTROL));
            case 9 -> List.of(new Header("line\nbreak\u001b[0m", text(2)));
            default -> List.of();
        };
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
