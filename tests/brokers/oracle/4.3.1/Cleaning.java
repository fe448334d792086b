import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.LogCleanerManager;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.PreCleanStats;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import java.io.File;
import java.lang.reflect.Method;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;

/** A log as the cleaner's manager of Kafka 4.3 sees it; {@code turn} is -1 if it is not taken. */
record Cleaning(
        long firstDirty, long before, long cleanBytes, long dirtyBytes, double ratio, boolean forced, int turn) {
    /** What the manager makes of logs in a log directory, by the name of the partition. */
    static Map<String, Cleaning> of(File directory, List<Broker.Log> loaded, Time time) throws Exception {
        var logs = new ConcurrentHashMap<TopicPartition, UnifiedLog>();
        loaded.forEach(each -> logs.put(each.log().topicPartition(), each.log()));
        var manager = new LogCleanerManager(List.of(directory), logs, new LogDirFailureChannel(1));
        Map<TopicPartition, Long> checkpoints = manager.allCleanerCheckpoints();
        Map<String, Cleaning> found = new TreeMap<>();
        for (var each : logs.entrySet()) {
            found.put(each.getKey().toString(), calculated(each.getValue(), checkpoints.get(each.getKey()), time));
        }
        var taken = manager.grabFilthiestCompactedLog(time, new PreCleanStats());
        for (int turn = 0; taken.isPresent(); turn++) {
            LogToClean next = taken.get();
            boolean forced = found.get(next.topicPartition().toString()).forced();
            found.put(next.topicPartition().toString(), of(next, forced, turn));
            taken = manager.grabFilthiestCompactedLog(time, new PreCleanStats());
        }
        manager.removeMetrics();
        return found;
    }

    private static Cleaning of(LogToClean log, boolean forced, int turn) {
        return new Cleaning(log.firstDirtyOffset(), log.firstUncleanableOffset(), log.cleanBytes(),
            log.cleanableBytes(), log.cleanableRatio(), forced, turn);
    }

    private static Cleaning calculated(UnifiedLog log, Long checkpoint, Time time) throws Exception {
        long now = time.milliseconds();
        Method offsets = LogCleanerManager.class.getDeclaredMethod(
            "cleanableOffsets", UnifiedLog.class, Optional.class, long.class);
        Method delay = LogCleanerManager.class.getDeclaredMethod(
            "maxCompactionDelay", UnifiedLog.class, long.class, long.class);
        offsets.setAccessible(true);
        delay.setAccessible(true);
        Object range = offsets.invoke(null, log, Optional.ofNullable(checkpoint), now);
        long first = number(range, "firstDirtyOffset");
        boolean forced = (long) delay.invoke(null, log, first, now) > 0;
        return of(new LogToClean(log, first, number(range, "firstUncleanableDirtyOffset"), forced), forced, -1);
    }

    private static long number(Object range, String name) throws Exception {
        Method accessor = range.getClass().getDeclaredMethod(name);
        accessor.setAccessible(true);
        return (long) accessor.invoke(range);
    }
}
