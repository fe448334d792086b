import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;

/** Writes consumed records, one JSON object a line: bytes in base64, null and no time as null. */
final class Lines implements AutoCloseable {
    /** The type of the times of magic 0. */
    static final String NO_TIMESTAMP = "NoTimestampType";

    private static final ObjectMapper JSON = new ObjectMapper();

    private final BufferedWriter output;
    private ObjectNode line;
    private ArrayNode headers;

    Lines(Path path) throws Exception {
        output = Files.newBufferedWriter(path);
    }

    /** Begins a record; what {@code timestamp} is does not matter where its type says none. */
    void begin(long offset, long timestamp, String timestampType, byte[] key, byte[] value) {
        line = JSON.createObjectNode();
        line.put("offset", offset);
        line.put("timestamp", timestampType.equals(NO_TIMESTAMP) ? null : timestamp);
        line.put("timestamp_type", timestampType);
        put(line, "key", key);
        put(line, "value", value);
        headers = line.putArray("headers");
    }

    void header(String key, byte[] value) {
        put(headers.addObject().put("key", key), "value", value);
    }

    void end() throws Exception {
        output.write(JSON.writeValueAsString(line));
        output.write("\n");
    }

    @Override
    public void close() throws Exception {
        output.close();
    }

    private static void put(ObjectNode object, String name, byte[] bytes) {
        if (bytes == null) {
            object.putNull(name);
        } else {
            object.put(name + "_base64", Base64.getEncoder().encodeToString(bytes));
        }
    }
}
