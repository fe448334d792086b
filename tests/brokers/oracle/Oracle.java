import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.sun.management.UnixOperatingSystemMXBean;

import org.apache.kafka.common.errors.KafkaStorageException;
import org.apache.kafka.common.utils.Time;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.management.ManagementFactory;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Runs a broker's own code on request: one JSON object a line on standard input, one answer a line on standard output.
 *
 * <p>{@code load} opens a partition directory as a starting broker does and closes it as a stopping one does;
 * {@code dump} runs Kafka's DumpLogSegments; {@code clean} asks the cleaner's manager what it would clean of the logs
 * in a log directory, and in which order. The answer to a request that fails for any reason of ours, not of the
 * broker's, is {@code {"failed": stack trace}}. Must never end before its standard input does.
 */
public final class Oracle {
    /** A refused load and some dumps leave files open until the garbage collector finds them. */
    private static final long MANY_FILES = 512;

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Switch OUT = new Switch();
    private static final Switch ERR = new Switch();

    private final Broker broker = new Broker();
    /** Made last, so that the first load tells no more than the later ones. */
    private final LogLines logLines = new LogLines();

    /** Thrown where Kafka's code would leave the JVM. */
    @SuppressWarnings("serial")
    private static final class Exited extends Error {
    }

    /** A stream whose target changes; Scala's println keeps the first System.out that it meets for good. */
    private static final class Switch extends OutputStream {
        private OutputStream target = new FileOutputStream(FileDescriptor.err);

        @Override
        public void write(int b) throws IOException {
            target.write(b);
        }

        @Override
        public void write(byte[] bytes, int start, int length) throws IOException {
            target.write(bytes, start, length);
        }
    }

    public static void main(String[] arguments) throws IOException {
        System.setOut(new PrintStream(OUT, false, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
        Ends.with(() -> {
            throw new Exited();
        });
        new Oracle().serve();
    }

    private void serve() throws IOException {
        OutputStream answers = new FileOutputStream(FileDescriptor.out);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            ByteArrayOutputStream answer = new ByteArrayOutputStream();
            answer.write(JSON.writeValueAsBytes(answer(line)));
            answer.write('\n');
            answers.write(answer.toByteArray());
            closeForgottenFiles();
        }
    }

    private ObjectNode answer(String line) {
        try {
            JsonNode request = JSON.readTree(line);
            String operation = request.required("op").asText();
            return switch (operation) {
                case "load" -> load(request);
                case "dump" -> dump(request);
                case "clean" -> clean(request);
                default -> throw new IllegalArgumentException("unknown op " + operation);
            };
        } catch (Throwable failure) {
            return JSON.createObjectNode().put("failed", trace(failure));
        }
    }

    private ObjectNode load(JsonNode request) {
        File directory = new File(request.required("directory").asText());
        Map<String, String> config = JSON.convertValue(request.required("config"), new TypeReference<>() { });
        long logStart = request.required("log_start").asLong();
        long recoveryPoint = request.required("recovery_point").asLong();
        boolean clean = request.required("clean").asBoolean();
        int producerExpiryMs = request.required("producer_expiry_ms").asInt();
        JsonNode now = request.required("now_ms");
        Time time = now.isNull() ? Time.SYSTEM : stopped(now.asLong());
        DeferredScheduler scheduler = new DeferredScheduler();
        Broker.Log log;
        logLines.take();
        try {
            log = broker.load(directory, config, logStart, recoveryPoint, clean, producerExpiryMs, time, scheduler);
        } catch (Throwable refusal) {
            return refused(refusal);
        }
        ObjectNode answer = JSON.createObjectNode();
        answer.put("ok", true);
        answer.put("log_start_offset", log.logStartOffset());
        answer.put("log_end_offset", log.logEndOffset());
        log.segments().forEach(answer.putArray("segments")::add);
        scheduler.drain();
        log.flushAndClose();
        logLines.take().forEach(answer.putArray("messages")::add);
        return answer;
    }

    /** A clock that stands at a time, and is otherwise the system's. */
    private static Time stopped(long nowMs) {
        InvocationHandler handler = (proxy, method, arguments) ->
            method.getName().equals("milliseconds") ? nowMs : method.invoke(Time.SYSTEM, arguments);
        return (Time) Proxy.newProxyInstance(Oracle.class.getClassLoader(), new Class<?>[] {Time.class}, handler);
    }

    private ObjectNode refused(Throwable refusal) {
        // What LogManager.loadLogs lets a broker survive, without this log directory.
        boolean offline = refusal instanceof IOException
            || refusal instanceof KafkaStorageException && refusal.getCause() instanceof IOException;
        ObjectNode answer = JSON.createObjectNode();
        answer.put("ok", false);
        answer.put("error", refusal.getClass().getName());
        answer.put("message", refusal.getMessage());
        answer.put("offline", offline);
        logLines.take().forEach(answer.putArray("messages")::add);
        return answer;
    }

    private ObjectNode clean(JsonNode request) throws Exception {
        Time time = stopped(request.required("now_ms").asLong());
        List<Broker.Log> logs = new ArrayList<>();
        for (JsonNode wanted : request.required("logs")) {
            File directory = new File(wanted.required("directory").asText());
            Map<String, String> config = JSON.convertValue(wanted.required("config"), new TypeReference<>() { });
            Broker.Log log = broker.load(directory, config, wanted.required("log_start").asLong(), 0, true,
                Integer.MAX_VALUE, time, new DeferredScheduler());
            log.raiseHighWatermark(wanted.required("high_watermark").asLong());
            logs.add(log);
        }
        ObjectNode answer = JSON.createObjectNode();
        File directory = new File(request.required("directory").asText());
        Cleaning.of(directory, logs, time).forEach((name, cleaning) -> answer.putObject(name)
            .put("first_dirty", cleaning.firstDirty())
            .put("before", cleaning.before())
            .put("clean_bytes", cleaning.cleanBytes())
            .put("dirty_bytes", cleaning.dirtyBytes())
            .put("ratio", cleaning.ratio())
            .put("forced", cleaning.forced())
            .put("turn", cleaning.turn()));
        logs.forEach(Broker.Log::flushAndClose);
        logLines.take();
        return answer;
    }

    private ObjectNode dump(JsonNode request) {
        String[] arguments = JSON.convertValue(request.required("args"), String[].class);
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        OutputStream outBefore = OUT.target;
        OutputStream errBefore = ERR.target;
        OUT.target = out;
        ERR.target = err;
        try {
            broker.dump(arguments);
        } catch (Exited exited) {
            // The tool said why on System.err before it left.
        } catch (Throwable uncaught) {
            // As a JVM of its own would print it.
            System.err.print("Exception in thread \"main\" " + trace(uncaught));
        } finally {
            System.out.flush();
            System.err.flush();
            OUT.target = outBefore;
            ERR.target = errBefore;
        }
        return JSON.createObjectNode()
            .put("stdout", out.toByteArray())
            .put("stderr", err.toByteArray());
    }

    private static String trace(Throwable failure) {
        StringWriter trace = new StringWriter();
        failure.printStackTrace(new PrintWriter(trace));
        return trace.toString();
    }

    private static void closeForgottenFiles() {
        var system = (UnixOperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        if (system.getOpenFileDescriptorCount() > MANY_FILES) {
            System.gc();
        }
    }
}
