"""The logs of coordinators' topics, as a starting coordinator reads them.

latest      The last record of each key of a compacted topic, in memory that grows with keys alone.
log         Reads a partition of a coordinator's topic as a starting coordinator does.
extents     The first and the end offset of logs, as brokers answer them to consumers.
partitions  The partitions of a coordinator's topic, and the best copy of each.
"""
