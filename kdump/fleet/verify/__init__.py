"""``kdump verify`` on Spark.

inventory  The files of a partition, as the driver keeps them.
ledger     The ledger: a row for each log that an executor has read.
listing    The listing stages, which executors run where the disks are.
task       The work of an executor: surveys of segments, verdicts of partitions.
verify     verify() and the quick pass as stages of Spark.
"""
