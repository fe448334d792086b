"""What a KRaft node knows of its cluster, from its ``__cluster_metadata-0``.

log         The records and snapshots of ``__cluster_metadata-0``.
voters      The voters and the kraft version, from control records.
image       The state of the cluster at an offset, as frozen values.
builder     ImageBuilder: applies one record after the other, by the rules of a broker.
replay      The replay of a metadata log: snapshot, records, transactions, and what cannot be
            applied.
"""
