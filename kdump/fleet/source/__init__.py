"""What the Spark data source reads: options, paths, offsets and columns.

options      The options of the data source: its own, and those of Spark's Kafka source.
paths        Paths of the data source: globs, and directories that hold log directories.
by_time      The first offset at or after a timestamp, as a broker answers it to consumers.
offsets      The logs and offsets that options select.
committed    The committed records of a partition, read in one task.
positions    The offset of a stream in a checkpoint: the next offset of each partition, by topic id.
sealed       The sealed segments of all copies of partitions, for a stream.
admission    The bounds of a batch of a stream, in offsets or in bytes.
columns      Records with the columns of Spark's Kafka source.
bad_records  Corrupt ranges of a query: an error, or rows below ``badRecordsPath``.
ranges       Ranges of sealed offsets: their plan from two positions of a stream, and their read in
             a task.
stream       The stream reader: ``spark.readStream.format("kdump")`` over sealed segments.
"""
