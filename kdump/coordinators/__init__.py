"""What coordinators know, from the logs of their topics: groups and transactions, beside the logs
that these are about.

latest             The last record of each key of a compacted topic, in memory that grows with keys
                   alone.
log                Reads a partition of a coordinator's topic as a starting coordinator does.
share_state        How far share groups have acknowledged, from the records of
                   ``__share_group_state``.
extents            The first and the end offset of logs, as brokers answer them to consumers.
partitions         The partitions of a coordinator's topic, and the best copy of each.
group              A group and its committed offsets, from the last records of
                   ``__consumer_offsets``.
consumption        Groups beside the logs that they consume: lag, offsets outside of a log, expiry.
transaction_state  The state of a transactional id, from the last records of
                   ``__transaction_state``.
open_transactions  The open transactions of a log, as a broker that loads it finds them.
transactions       Transactions of coordinators beside the logs that they write to: which are late,
                   which hang.
"""
