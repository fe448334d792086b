import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.zip.CRC32;
import java.util.zip.CheckedOutputStream;

/**
 * Reads batches as a consumer does that checks checksums, a line each.
 *
 * <p>Standard input holds the size and the bytes of one after the other. A line has the error, or
 * {@code -}, and for each record in front of it its offset and the CRC-32 of its content: timestamp,
 * key, value, count of headers, and each header. A size of -1 stands for null, the key of a header
 * that is not UTF-8 counts as empty.
 */
public final class Batches {
    private final StringBuilder line = new StringBuilder();

    public static void main(String[] arguments) throws Exception {
        PrintStream output = new PrintStream(new BufferedOutputStream(System.out, 1 << 16));
        try (DataInputStream input =
                new DataInputStream(new BufferedInputStream(System.in, 1 << 16))) {
            Batches batches = new Batches();
            while (true) {
                byte[] bytes;
                try {
                    bytes = new byte[input.readInt()];
                } catch (EOFException end) {
                    break;
                }
                input.readFully(bytes);
                output.println(batches.read(bytes));
            }
        }
        output.flush();
    }

    private String read(byte[] bytes) {
        line.setLength(0);
        String error = "-";
        try {
            readAll(bytes);
        } catch (Exception | Error thrown) { // snappy-java throws an Error of its own
            error = thrown.getClass().getSimpleName();
        }
        return error + line;
    }

    private void readAll(byte[] bytes) throws Exception {
        for (var batch : Memory.read(bytes).batches()) {
            batch.ensureValid();
            try (var records = batch.streamingIterator(Buffers.ALL)) {
                while (records.hasNext()) {
                    var record = records.next();
                    record.ensureValid();
                    CRC32 crc = new CRC32();
                    DataOutputStream out = new DataOutputStream(
                            new CheckedOutputStream(OutputStream.nullOutputStream(), crc));
                    out.writeLong(record.timestamp());
                    put(out, record.key());
                    put(out, record.value());
                    out.writeInt(record.headers().length);
                    for (var header : record.headers()) {
                        String key = header.key();
                        byte[] name = (key.indexOf('\ufffd') < 0 ? key : "").getBytes(UTF_8);
                        put(out, ByteBuffer.wrap(name));
                        byte[] value = header.value();
                        put(out, value == null ? null : ByteBuffer.wrap(value));
                    }
                    line.append(' ').append(record.offset()).append(':').append(crc.getValue());
                }
            }
        }
    }

    private static void put(DataOutputStream out, ByteBuffer bytes) throws Exception {
        out.writeInt(bytes == null ? -1 : bytes.remaining());
        if (bytes != null) {
            byte[] copy = new byte[bytes.remaining()];
            bytes.get(copy);
            out.write(copy);
        }
    }
}
