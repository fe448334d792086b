import kafka.log.LogCleanerManager;
import kafka.log.LogCleanerManager$;
import kafka.log.LogToClean;
import kafka.log.OffsetsToClean;
import kafka.log.PreCleanStats;
import kafka.log.UnifiedLog;
import kafka.utils.Pool;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;

import java.io.File;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** A log as the cleaner's manager of Kafka 3.9 sees it; {@code turn} is -1 if it is not taken. */
record Cleaning(
        long firstDirty, long before, long cleanBytes, long dirtyBytes, double ratio, boolean forced, int turn) {
    /** What the manager makes of logs in a log directory, by the name of the partition. */
    static Map<String, Cleaning> of(File directory, List<Broker.Log> loaded, Time time) {
        var logs = new Pool<TopicPartition, UnifiedLog>(Option.empty());
        loaded.forEach(each -> logs.put(each.log().topicPartition(), each.log()));
        var manager = new LogCleanerManager(
            CollectionConverters.asScala(List.of(directory)).toSeq(), logs, new LogDirFailureChannel(1));
        var checkpoints = manager.allCleanerCheckpoints();
        Map<String, Cleaning> found = new TreeMap<>();
        for (Broker.Log each : loaded) {
            TopicPartition partition = each.log().topicPartition();
            found.put(partition.toString(), calculated(each.log(), checkpoints.get(partition), time));
        }
        var taken = manager.grabFilthiestCompactedLog(time, new PreCleanStats());
        for (int turn = 0; taken.isDefined(); turn++) {
            LogToClean next = taken.get();
            found.put(next.topicPartition().toString(), of(next, turn));
            taken = manager.grabFilthiestCompactedLog(time, new PreCleanStats());
        }
        manager.removeMetrics();
        return found;
    }

    private static Cleaning of(LogToClean log, int turn) {
        return new Cleaning(log.firstDirtyOffset(), log.firstUncleanableOffset(), log.cleanBytes(),
            log.cleanableBytes(), log.cleanableRatio(), log.needCompactionNow(), turn);
    }

    private static Cleaning calculated(UnifiedLog log, Option<Object> checkpoint, Time time) {
        long now = time.milliseconds();
        LogCleanerManager$ manager = LogCleanerManager$.MODULE$;
        OffsetsToClean range = manager.cleanableOffsets(log, checkpoint, now);
        long first = range.firstDirtyOffset();
        boolean forced = manager.kafka$log$LogCleanerManager$$maxCompactionDelay(log, first, now) > 0;
        return of(new LogToClean(log.topicPartition(), log, first, range.firstUncleanableDirtyOffset(), forced), -1);
    }
}
