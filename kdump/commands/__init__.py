"""A folder for each command: its options, its work, its text and its JSON.

compare/       ``kdump compare``: the copies of partitions on several brokers.
convert/       ``kdump convert-v0-v2``: old messages to magic 2.
dump/          ``kdump dump``: the content of segments and small files.
explain/       ``kdump explain``: finding codes and lines of a server.log.
export/        ``kdump export``: records into files of JSON Lines or Parquet, here or on Spark.
check/         ``kdump check``: the files of an export against its manifest.
groups/        ``kdump groups``: consumer groups and their committed offsets.
heal/          ``kdump heal``: damaged and missing parts of a log, taken from copies of it.
help/          ``kdump help``: the manual, as it was installed.
manifest/      ``kdump manifest``: log directories without their records, in one file.
metadata/      ``kdump metadata``: the metadata image of a KRaft node.
move/          ``kdump move``: partition directories moved between log directories of a node.
next_start/    ``kdump next-start``: what a broker does at its next start.
quorum/        ``kdump quorum``: the state of a KRaft quorum.
reindex/       ``kdump reindex``: the files beside the logs.
repair/        ``kdump repair``: the cures of all partitions of log directories, as one plan.
salvage/       ``kdump salvage``: a new partition from the sound batches of a damaged one.
scrub/         ``kdump scrub``: reads everything once in a while, and remembers what it read.
space/         ``kdump space``: what takes the space of log directories, and what retention frees.
transactions/  ``kdump transactions``: transactions of coordinators and in logs.
trim/          ``kdump trim``: the oldest segments removed, while the broker is stopped.
truncate/      ``kdump truncate-to-valid``: the cut of a log.
undo/          ``kdump undo``: repairs taken back, and their backups.
verify/        ``kdump verify``: what is on disk, what is wrong, what the next start does.
"""
