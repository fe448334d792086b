"""The commands that change partitions, or write new ones.

repairing  The course of every repair command: plan, report, consent, apply, exit code.
reindex    ``kdump reindex``: indexes, snapshots, epochs and checkpoints from the logs.
truncate   ``kdump truncate-to-valid``: a log cut where recovery would cut it.
heal       ``kdump heal``: damaged and missing parts of a log, taken from copies of it.
salvage    ``kdump salvage``: sound batches copied to a new partition.
convert    ``kdump convert-v0-v2``: old messages to magic 2.
undo       ``kdump undo``: lists, shows, takes back or deletes the backups of repairs.
"""
