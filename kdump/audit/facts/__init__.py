"""Facts about partitions from all files but their segments.

coordinator     The transaction coordinator's state from ``__transaction_state`` logs.
remote_storage  The segments of topics that are in remote storage, from ``__remote_log_metadata``
                logs.
remote_cache    ``remote-log-index-cache``, the indexes of remote segments that a broker has
                fetched.
denied_files    The files of a log directory that the broker's user may not open.
space           The free space of the file system that holds a log directory.
small_files     The small files of log directories and partitions, read and decoded.
retention       What retention deletes of a log at a broker's next check, and what holds the rest.
compaction      What the cleaner would clean of a compacted log, and what keeps it from that.
missing_start   Whether a log lacks its first segments, and whether retention can have deleted them.
cluster         Topics, replicas and configs from the node's own metadata log.
settings        The topic settings that apply: metadata log, cleaner checkpoint,
                ``server.properties``, defaults.
metadata_log    A metadata log that is gone: whether the quorum of the cluster still has its
                records.
own_replicas    The replicas that the metadata log assigns to a node, beside the directories that it
                has.
"""
