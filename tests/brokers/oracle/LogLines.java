import org.apache.log4j.AppenderSkeleton;
import org.apache.log4j.Level;
import org.apache.log4j.LogManager;
import org.apache.log4j.spi.LoggingEvent;

import java.util.ArrayList;
import java.util.List;

/** Collects the broker's log lines of INFO and above, each as its level, a blank and its text. */
final class LogLines extends AppenderSkeleton {
    private List<String> lines = new ArrayList<>();

    LogLines() {
        LogManager.getRootLogger().setLevel(Level.INFO);
        LogManager.getRootLogger().addAppender(this);
    }

    /** The lines since the last call. */
    synchronized List<String> take() {
        List<String> taken = lines;
        lines = new ArrayList<>();
        return taken;
    }

    @Override
    protected synchronized void append(LoggingEvent event) {
        lines.add(event.getLevel() + " " + event.getRenderedMessage());
    }

    @Override
    public boolean requiresLayout() {
        return false;
    }

    @Override
    public void close() {
    }
}
