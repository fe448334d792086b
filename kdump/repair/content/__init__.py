"""The content of small files that repairs write.

extent        The evidence on a partition before a repair: that all was read, and its end offset.
epochs        Leader epochs of a log that gets a new end, and those of old messages.
producers     The producers before the first segment of a partition.
known_ends    Surveys of a damaged log with the transaction ends that are known.
companions    The files beside the logs of a new partition: epochs, indexes, snapshots, metadata.
indexes       The offset and time indexes that a plan writes.
replayed      The transaction indexes and producer snapshots that a plan writes.
small_files   The leader epochs and the topic id that a plan writes.
changed_logs  The verdict on a partition whose logs a plan changes.
"""
