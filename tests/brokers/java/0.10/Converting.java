import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Turns messages into what producers send, and what consumers read into lines; no headers yet. */
final class Converting {
    static ProducerRecord<byte[], byte[]> toRecord(Content.Message message) {
        return new ProducerRecord<>(
                message.topic(),
                message.partition(),
                message.timestamp(),
                message.key(),
                message.value());
    }

    static void write(ConsumerRecord<byte[], byte[]> record, Lines lines) throws Exception {
        lines.begin(
                record.offset(),
                record.timestamp(),
                record.timestampType().name,
                record.key(),
                record.value());
        lines.end();
    }
}
