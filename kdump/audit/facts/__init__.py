"""Facts about partitions from everything but their segments.

metadata_log  The records and snapshots of ``__cluster_metadata-0``.
coordinator   The transaction coordinator's state from ``__transaction_state`` logs.
small_files   The small files of log directories and partitions, read and decoded.
cluster       Topics, replicas and configs as the node's own metadata log has them.
settings      The topic settings that apply: metadata log, cleaner checkpoint,
              ``server.properties``, defaults.
"""
