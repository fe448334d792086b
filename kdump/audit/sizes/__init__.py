"""The bytes of partitions: what their files take, and what retention deletes of them.

files         The bytes that files take on their file system.
growth        How fast logs grow, and when their file system is full.
file_systems  File systems with log directories, and how fast the logs on them grow.
cleaning      What of a compacted partition waits for the cleaner: its segments, checkpoint and
              transactions.
measure       The bytes of one partition: what its files take, and what retention deletes of them.
tasks         measure_targets(): the partitions of a run measured, each with what lies outside of
              it.
totals        The bytes of log directories in a few numbers, for metrics: topics, retention, and
              growth.
leftovers     What takes space in a log directory and belongs to no log that a broker loads.
"""
