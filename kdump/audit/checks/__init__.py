"""The checks: pure functions from evidence to findings, a module for each kind of file.

read_errors        Checks of files that kdump could not read.
broker_rights      Checks of files that the broker may not open.
batches            Checks of batches and records: damage, offsets, segments that overlap,
                   timestamps, undecodable records.
segments           Checks of a partition as a whole: no segment left, the first ones missing,
                   records in remote storage, timestamps in the future, indexes that a clean stop
                   left untrimmed.
missing_offsets    Checks of offsets that are missing between and inside segments.
indexes            Checks of offset and time indexes: files, entries, missing indexes.
txn_indexes        Checks of transaction indexes against the log.
producers          Checks of producer snapshots and sequence numbers against the replay.
transactions       Checks of transactions: order, hanging transactions, lost markers.
epochs             Checks of leader epochs in batches and in ``leader-epoch-checkpoint``.
file_names         Checks of the files of a partition by name and size: logs too large, indexes
                   without a log.
file_types         Checks of what is no file in the place of one, and of directories that a broker
                   renamed.
partition_files    Checks of a partition's small files and checkpoint lines.
futures            Checks of future logs, which a move between log directories writes.
leftovers          Checks of files that a start removes, and of files that are not Kafka's.
swap_files         Checks of ``.swap`` files, which an interrupted cleaning or split leaves.
configs            Checks of the configs of a node and its topics against what its release accepts.
topic              Checks of a partition against the metadata of its topic.
metadata           Checks of the KRaft metadata log: whether it is there, snapshots, records,
                   ``quorum-state``.
repair_records     Checks of backups and unfinished repairs in a partition.
directory          Checks of one log directory: foreign entries, checkpoints, the clean shutdown
                   marker.
meta_properties    Checks of ``meta.properties``: its form, and the node and the directory that it
                   names.
node               Checks of the log directories of one node together: places, replicas,
                   ``bootstrap.checkpoint``.
assigned_replicas  Checks of the replicas that the cluster assigns to directories out of sight, or
                   set aside.
changes            Finding codes of changes between two scrubs, which ``history/`` and ``scrub``
                   find.
"""
