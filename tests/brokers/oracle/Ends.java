import org.apache.kafka.common.utils.Exit;

/** What Kafka does at the end of a log, and of the JVM. */
final class Ends {
    private Ends() {
    }

    /** Where Kafka's code would leave the JVM, runs {@code instead}, which throws. */
    static void with(Runnable instead) {
        Exit.Procedure procedure = (status, message) -> instead.run();
        Exit.setExitProcedure(procedure);
        Exit.setHaltProcedure(procedure);
    }

    /** What LogManager does with a log before it closes it: closing it trims its indexes. */
    static void beforeClose(Object log) {
    }
}
