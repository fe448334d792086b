import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Turns messages into what producers send, and what consumers read into lines; with headers. */
final class Converting {
    static ProducerRecord<byte[], byte[]> toRecord(Content.Message message) {
        var record =
                new ProducerRecord<>(
                        message.topic(),
                        message.partition(),
                        message.timestamp(),
                        message.key(),
                        message.value());
        for (var header : message.headers()) {
            record.headers().add(header.key(), header.value());
        }
        return record;
    }

    static void write(ConsumerRecord<byte[], byte[]> record, Lines lines) throws Exception {
        lines.begin(
                record.offset(),
                record.timestamp(),
                record.timestampType().name,
                record.key(),
                record.value());
        for (var header : record.headers()) {
            lines.header(header.key(), header.value());
        }
        lines.end();
    }
}
