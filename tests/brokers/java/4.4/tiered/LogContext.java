package org.apache.kafka.common.utils;

/** The logger's prefix where LocalTieredStorage of 4.3 looks for it; 4.4 has it in another package. */
public class LogContext extends org.apache.kafka.common.utils.internals.LogContext {
    public LogContext(String prefix) {
        super(prefix);
    }
}
