"""What coordinators know, from the logs of their topics: groups, and how they stand to their logs.

log          Reads a partition of a coordinator's topic as a starting coordinator does.
extents      The first and the end offset of logs, as brokers answer them to consumers.
partitions   The partitions of a coordinator's topic, and the best copy of each.
group        A group and its committed offsets, from the last records of ``__consumer_offsets``.
consumption  Groups beside the logs that they consume: lag, offsets outside of a log, expiry.
"""
