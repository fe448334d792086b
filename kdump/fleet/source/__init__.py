"""What the Spark data source reads: options, paths, offsets and columns.

options    The options of the data source: its own, and those of Spark's Kafka source.
paths      Paths of the data source: globs, and directories that hold log directories.
by_time    The first offset at or after a timestamp, as a broker answers it to consumers.
offsets    The logs and offsets that options select.
committed  The committed records of a partition, read in one task.
columns    Records with the columns of Spark's Kafka source.
"""
