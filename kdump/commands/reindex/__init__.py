"""``kdump reindex``: the files beside the logs.

checkpoints  The offset checkpoints of a log directory that a plan writes.
plan         plan_reindex(): all files beside the logs of a partition.
command      ``kdump reindex``: indexes, snapshots, epochs and checkpoints from the logs.
"""
