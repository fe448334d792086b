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
copies/        Copies of partitions on several brokers: what they share, and where they differ.
repair/        What all repairs share: plans, durable steps, undo, and the content of new files.
tables/        Arrow tables of records, batches, findings and copies.
coordinators/  The logs of coordinators' topics, as a starting coordinator reads them.
quorum/        The copies of a metadata log, on the controllers of a KRaft quorum.
output/        Files that kdump makes, beside those of a broker: their place, their rights, how they
               appear.
history/       What earlier runs read of each segment, when, and what it was like.
fleet/         The same work on Spark, over many hosts and object stores.
ui/            What commands share of their options and reports.
cli/           The ``kdump`` command itself.
commands/      A folder for each command: its options, its work, its text and its JSON.
"""
