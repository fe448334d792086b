"""Messages of Kafka's internal topics: bytes to fields, by tables.

reader             Kafka's generated messages, read by tables of their fields.
metadata           The records of ``__cluster_metadata-0`` and its snapshots.
groups             The records of ``__consumer_offsets``: groups and their committed offsets.
transactions       The records of ``__transaction_state``.
shares             The records of ``__share_group_state``: how far share groups have acknowledged.
remote_logs        The records of ``__remote_log_metadata``: tiered segments, and partitions deleted
                   there.
payloads           Keys and values of records in internal topics.
consumer_protocol  What members of a classic group that consumes say of themselves, and what they
                   are given.
forms              Decoded keys and values, as Kafka's tools print them and as JSON.
"""
