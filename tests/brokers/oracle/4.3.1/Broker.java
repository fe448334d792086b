import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;
import org.apache.kafka.tools.DumpLogSegments;

import java.io.File;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;

/** The calls into Kafka 4.3 and later. */
final class Broker {
    private final BrokerTopicStats stats = new BrokerTopicStats(false);

    /** A loaded log. */
    record Log(UnifiedLog log) {
        long logStartOffset() {
            return log.logStartOffset();
        }

        long logEndOffset() {
            return log.logEndOffset();
        }

        List<Long> segments() {
            return log.logSegments().stream().map(LogSegment::baseOffset).toList();
        }

        /** What ReplicaManager does as the replicas follow. */
        void raiseHighWatermark(long offset) throws IOException {
            log.updateHighWatermark(offset);
        }

        /** What LogManager does with each log at a clean stop. */
        void flushAndClose() {
            Ends.beforeClose(log);
            log.flush(true);
            log.close();
            log.removeLogMetrics();
        }
    }

    /** What LogManager.loadLog calls for each directory, with a broker's default settings. */
    Log load(
            File directory,
            Map<String, String> config,
            long logStart,
            long recoveryPoint,
            boolean clean,
            int producerExpiryMs,
            Time time,
            Scheduler scheduler) throws IOException {
        return new Log(UnifiedLog.create(
            directory,
            new LogConfig(config),
            logStart,
            recoveryPoint,
            scheduler,
            stats,
            time,
            900_000,
            new ProducerStateManagerConfig(producerExpiryMs, true),
            600_000,
            new LogDirFailureChannel(1),
            clean,
            Optional.empty(),
            new ConcurrentHashMap<>(),
            false,
            LogOffsetsListener.NO_OP_OFFSETS_LISTENER));
    }

    void dump(String[] arguments) throws IOException {
        DumpLogSegments.main(arguments);
    }
}
