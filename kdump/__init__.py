"""fsck for Kafka log directories.

errors         The errors that kdump raises on purpose: what was expected, what was found, where,
               and what to do.
program        The name of the command, which advice and usage messages show.
values         Frozen values: classes whose instances do not change.
format/        Bytes to values and back: the formats of Kafka's files. This layer opens no file and
               reads no clock.
storage/       Files and objects to bytes, names, partitions and segments. This layer writes
               nothing.
metadata/      What a KRaft node knows of its cluster, from its ``__cluster_metadata-0``.
audit/         Verification: surveys of segments, checks over them, findings and forecasts.
scrub/         Scrubs: runs that remember what was read of each segment, when, and what it was like.
copies/        Copies of partitions on several brokers: what they share, and where they differ.
repair/        Changing what is on disk: plans, durable steps, and undo.
tables/        Arrow tables of records, batches, findings and copies.
coordinators/  What coordinators know, from the logs of their topics: groups and transactions,
               beside the logs that these are about.
quorum/        The state of a KRaft quorum, from the disks of its controllers.
export/        Files that kdump makes of logs and of runs: Parquet and JSON Lines, here or on Spark.
fleet/         The same work on Spark, over many hosts and object stores.
cli/           The command line: arguments in, reports and exit codes out.
"""
