import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import kafka.api.FetchRequestBuilder;
import kafka.api.PartitionOffsetRequestInfo;
import kafka.common.TopicAndPartition;
import kafka.javaapi.OffsetRequest;
import kafka.javaapi.consumer.SimpleConsumer;

/**
 * Reads partitions from their beginning to their end, one JSON object a record, with 0.8.2's only
 * consumer that can be told where to read.
 *
 * <p>{@code java Consume BOOTSTRAP read_uncommitted DIRECTORY TOPIC-PARTITION...} writes
 * {@code DIRECTORY/TOPIC-PARTITION.read_uncommitted.jsonl}. A message here has no time.
 */
final class Consume {
    private static final int TIMEOUT_MS = 60_000;
    private static final int FETCH_BYTES = 1 << 20;
    private static final String NAME = "consume";

    public static void main(String[] arguments) throws Exception {
        int colon = arguments[0].indexOf(':');
        String host = arguments[0].substring(0, colon);
        int port = Integer.parseInt(arguments[0].substring(colon + 1));
        var consumer = new SimpleConsumer(host, port, TIMEOUT_MS, FETCH_BYTES, NAME);
        for (String name : List.of(arguments).subList(3, arguments.length)) {
            Path path = Path.of(arguments[2], name + "." + arguments[1] + ".jsonl");
            int dash = name.lastIndexOf('-');
            int partition = Integer.parseInt(name.substring(dash + 1));
            try (Lines lines = new Lines(path)) {
                read(consumer, new TopicAndPartition(name.substring(0, dash), partition), lines);
            }
        }
        consumer.close();
    }

    private static void read(SimpleConsumer consumer, TopicAndPartition partition, Lines lines)
            throws Exception {
        long next = offset(consumer, partition, kafka.api.OffsetRequest.EarliestTime());
        long end = offset(consumer, partition, kafka.api.OffsetRequest.LatestTime());
        while (next < end) {
            var request =
                    new FetchRequestBuilder()
                            .clientId(NAME)
                            .addFetch(partition.topic(), partition.partition(), next, FETCH_BYTES)
                            .build();
            var response = consumer.fetch(request);
            short error = response.errorCode(partition.topic(), partition.partition());
            if (error != 0) {
                throw new IllegalStateException("error " + error + " of " + partition);
            }
            long before = next;
            for (var found : response.messageSet(partition.topic(), partition.partition())) {
                // A compressed set comes whole, from before the offset asked for.
                if (found.offset() >= before) {
                    var message = found.message();
                    byte[] key = bytes(message.key());
                    byte[] value = bytes(message.payload());
                    lines.begin(found.offset(), -1, Lines.NO_TIMESTAMP, key, value);
                    lines.end();
                    next = found.nextOffset();
                }
            }
            if (next == before) {
                throw new IllegalStateException("no message of " + partition + " at " + next);
            }
        }
    }

    private static long offset(SimpleConsumer consumer, TopicAndPartition partition, long time) {
        var asked = Map.of(partition, new PartitionOffsetRequestInfo(time, 1));
        var request = new OffsetRequest(asked, kafka.api.OffsetRequest.CurrentVersion(), NAME);
        var response = consumer.getOffsetsBefore(request);
        long[] offsets = response.offsets(partition.topic(), partition.partition());
        if (offsets.length == 0) {
            throw new IllegalStateException("no offsets of " + partition);
        }
        return offsets[0];
    }

    private static byte[] bytes(ByteBuffer buffer) {
        if (buffer == null) {
            return null;
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }
}
