import org.apache.kafka.common.utils.internals.Exit;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/** What Kafka 4.4 does at the end of a log, and of the JVM. */
final class Ends {
    private Ends() {
    }

    /** Where Kafka's code would leave the JVM, runs {@code instead}, which throws. */
    static void with(Runnable instead) {
        Exit.Procedure procedure = (status, message) -> instead.run();
        Exit.setExitProcedure(procedure);
        Exit.setHaltProcedure(procedure);
    }

    /** What LogManager does with a log before it closes it: it trims its indexes. */
    static void beforeClose(UnifiedLog log) {
        log.prepareActiveSegmentForClose();
    }
}
