"""One module for each command.

verify_engine  Where ``verify`` runs: the worker pool or the Spark session, behind one interface.
verify         ``kdump verify``: what is on disk, what is wrong, what the next start does.
next_start     ``kdump next-start``: what a broker does at its next start.
dump           ``kdump dump``: the content of segments and small files.
export         ``kdump export``: records to Parquet or JSON Lines.
explain        ``kdump explain``: finding codes and lines of a server.log.
repairing      The course of every repair command: plan, report, consent, apply, exit code.
reindex        ``kdump reindex``: indexes, snapshots, epochs and checkpoints from the logs.
truncate       ``kdump truncate-to-valid``: a log cut where recovery would cut it.
salvage        ``kdump salvage``: sound batches copied to a new partition.
convert        ``kdump convert-v0-v2``: old messages to magic 2.
undo           ``kdump undo``: lists, shows, takes back or deletes the backups of repairs.
help           ``kdump help``: the manual, as it was installed.
"""
