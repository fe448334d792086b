import java.util.List;
import java.util.Map;

/**
 * Writes one round of records that every release can write: {@code java Messages BOOTSTRAP ROUND
 * TOPIC:KIND:BATCHES:COUNT:CODECS...}.
 *
 * <p>Into each TOPIC go BATCHES batches, compressed with the comma-separated CODECS in turn: of
 * COUNT records ({@code even}), of one to COUNT ({@code mixed}; without headers {@code bare}), or of
 * COUNT new values of some keys ({@code updates}).
 */
final class Messages {
    /** Some keys come once, some often: the cleaner takes away parts of batches. */
    private static final int KEYS = 100;

    public static void main(String[] arguments) throws Exception {
        int round = Integer.parseInt(arguments[1]);
        for (String order : List.of(arguments).subList(2, arguments.length)) {
            String[] fields = order.split(":");
            write(arguments[0], new Content(fields[0], round), fields);
        }
    }

    private static void write(String bootstrap, Content content, String[] fields)
            throws Exception {
        int batches = Integer.parseInt(fields[2]);
        int count = Integer.parseInt(fields[3]);
        String[] codecs = fields[4].split(",");
        Client[] clients = new Client[codecs.length];
        for (int index = 0; index < codecs.length; index++) {
            clients[index] = client(bootstrap, codecs[index]);
        }
        for (int batch = 0; batch < batches; batch++) {
            clients[batch % clients.length].send(
                    switch (fields[1]) {
                        case "even" -> content.batch(0, count);
                        case "mixed" -> content.mixed(0, count);
                        case "bare" -> content.bare(0, count);
                        case "updates" -> content.updates(count, KEYS);
                        default -> throw new IllegalArgumentException(
                                "expected even, mixed, bare or updates, found " + fields[1]);
                    });
        }
        for (Client client : clients) {
            client.close();
        }
    }

    private static Client client(String bootstrap, String codec) {
        return new Client(
                Map.of(
                        "bootstrap.servers", bootstrap,
                        "compression.type", codec,
                        "enable.idempotence", false,
                        "acks", "1"));
    }
}
