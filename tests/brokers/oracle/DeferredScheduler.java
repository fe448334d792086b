import org.apache.kafka.server.util.Scheduler;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.Delayed;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;

/**
 * Keeps the one-time tasks of a load and runs them in their order when asked: no thread, no delay, so that the same
 * directory always ends the same. Periodic tasks never run.
 */
final class DeferredScheduler implements Scheduler {
    private final Deque<Task> tasks = new ArrayDeque<>();

    private static final class Task extends FutureTask<Void> implements ScheduledFuture<Void> {
        Task(Runnable work) {
            super(work, null);
        }

        @Override
        public long getDelay(TimeUnit unit) {
            return 0;
        }

        @Override
        public int compareTo(Delayed other) {
            return 0;
        }
    }

    @Override
    public void startup() {
    }

    @Override
    public void shutdown() {
    }

    @Override
    public void resizeThreadPool(int newSize) {
    }

    @Override
    public ScheduledFuture<?> schedule(String name, Runnable work, long delayMs, long periodMs) {
        Task task = new Task(work);
        if (periodMs < 0) {
            tasks.add(task);
        }
        return task;
    }

    /** Runs what was scheduled, and what that schedules. Throws IllegalStateException if a task fails. */
    void drain() {
        for (Task task = tasks.poll(); task != null; task = tasks.poll()) {
            task.run();
            try {
                task.get();
            } catch (ExecutionException | InterruptedException failure) {
                throw new IllegalStateException("a scheduled task failed", failure);
            }
        }
    }
}
