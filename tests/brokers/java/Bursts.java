import java.util.Map;
import java.util.Scanner;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes to all partitions of a topic, a burst for each line of its input: {@code java Bursts BOOTSTRAP
 * TOPIC PARTITIONS RECORDS BYTES}.
 *
 * <p>A burst is RECORDS batches of one record of BYTES in each partition. It prints {@code done} behind
 * each.
 */
final class Bursts {
    public static void main(String[] arguments) {
        String topic = arguments[1];
        int partitions = Integer.parseInt(arguments[2]);
        int records = Integer.parseInt(arguments[3]);
        byte[] value = new byte[Integer.parseInt(arguments[4])];
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0], "linger.ms", "0");
        var bytes = new ByteArraySerializer();
        try (var producer = new KafkaProducer<>(settings, bytes, bytes);
                var lines = new Scanner(System.in)) {
            while (lines.hasNextLine()) {
                lines.nextLine();
                for (int round = 0; round < records; round++) {
                    for (int partition = 0; partition < partitions; partition++) {
                        producer.send(new ProducerRecord<>(topic, partition, null, value));
                    }
                    producer.flush();
                }
                System.out.println("done");
            }
        }
    }
}
