import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.common.config.ConfigResource;

/**
 * Changes the message format of topics to and fro, and writes in between (2.3 to 2.8): {@code java
 * Formats BOOTSTRAP TOPIC...}.
 */
final class Formats {
    /** Magic 0, 1, 2, 1, 0, 2. */
    private static final List<String> FORMATS =
            List.of("0.9.0", "0.10.2", "2.8", "0.10.2", "0.9.0", "2.8");

    private static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");
    /** The broker takes about a second to follow, and tells nobody when it has. */
    private static final long FOLLOWING_MS = 2_500;

    private static final int MOST_RECORDS = 6;

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        List<Content> contents = new ArrayList<>();
        Map<ConfigResource, Collection<AlterConfigOp>> changes = new HashMap<>();
        for (String topic : List.of(arguments).subList(1, arguments.length)) {
            contents.add(new Content(topic, 1));
            changes.put(new ConfigResource(ConfigResource.Type.TOPIC, topic), null);
        }
        try (var admin = AdminClient.create(Map.of("bootstrap.servers", bootstrap))) {
            for (String format : FORMATS) {
                var entry = new ConfigEntry("message.format.version", format);
                var change = List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET));
                changes.replaceAll((topic, before) -> change);
                admin.incrementalAlterConfigs(changes).all().get();
                Thread.sleep(FOLLOWING_MS);
                for (String codec : CODECS) {
                    // Only the newest format has zstd.
                    if (!codec.equals("zstd") || format.equals("2.8")) {
                        write(bootstrap, codec, contents);
                    }
                }
            }
        }
    }

    private static void write(String bootstrap, String codec, List<Content> contents)
            throws Exception {
        Map<String, Object> settings =
                Map.of("bootstrap.servers", bootstrap, "compression.type", codec);
        try (var client = new Client(settings)) {
            for (Content content : contents) {
                client.send(content.bare(0, MOST_RECORDS));
            }
        }
    }
}
