"""The files beside the logs of a partition, rebuilt.

checkpoints  The offset checkpoints of a log directory that a plan writes.
plan         plan_reindex(): all files beside the logs of a partition.
"""
