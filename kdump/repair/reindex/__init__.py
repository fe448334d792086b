"""``kdump reindex``: the files beside the logs.

indexes      The offset and time indexes that a plan writes.
producers    The transaction indexes and producer snapshots that a plan writes.
small_files  The leader epochs and the topic id that a plan writes.
checkpoints  The offset checkpoints of a log directory that a plan writes.
plan         plan_reindex(): all files beside the logs of a partition.
"""
