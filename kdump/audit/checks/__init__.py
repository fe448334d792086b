"""The checks: pure functions from evidence to findings, a module for each kind of file.

read_errors      Checks of files that kdump could not read, or that the broker may not open.
batches          Checks of batches and records: damage, offsets, segments that overlap, timestamps,
                 undecodable records.
segments         Checks of a partition as a whole: no segment left, the first ones missing, records
                 in remote storage, timestamps in the future, indexes that a clean stop left
                 untrimmed.
missing_offsets  Checks of offsets that are missing between and inside segments.
indexes          Checks of offset and time indexes: files, entries, missing indexes.
txn_indexes      Checks of transaction indexes against the log.
producers        Checks of producer snapshots and sequence numbers against the replay.
transactions     Checks of transactions: order, hanging transactions, lost markers.
epochs           Checks of leader epochs in batches and in ``leader-epoch-checkpoint``.
partition_files  Checks of a partition's names, log sizes, small files and checkpoint lines.
futures          Checks of future logs, which a move between log directories writes.
leftovers        Checks of unfinished cleanings, splits and deletions.
topic            Checks of a partition against the metadata of its topic.
metadata         Checks of the KRaft metadata log: whether it is there, snapshots, records,
                 ``quorum-state``.
repair_records   Checks of backups and unfinished repairs in a partition.
directory        Checks of log directories and of the directories of one node together.
"""
