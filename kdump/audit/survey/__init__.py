"""One pass over a segment and its indexes; the result is small and can travel.

log_end          The end that a loader finds in a segment that it does not recover.
recovery         The effect of recovery on one segment: what it cuts, retains and reads.
rebuilt_indexes  The offset and time index that recovery writes. The rule that adds an entry, after
                 more than ``index.interval.bytes``, is in ``format/kernel/recovery.py``.
index_promises   Whether the entries of existing indexes lead to the right batches, checked during
                 the walk.
compaction       Whether settings and batches show that the cleaner has compacted a log.
anomalies        Oddities of batches that a broker accepts; those in headers are found here.
payloads         Records that the coordinator of their topic cannot decode; it then does not load
                 the partition.
events           Producer, transaction and leader epoch events of a segment, in offset order.
header_digest    A digest of a segment's batch headers and damage, which stands for every byte of
                 its log.
statistics       Statistics of batches from their headers, many batches at a time, and of the
                 reading itself.
survey           survey(): reads a segment in one pass: damage, offsets, timestamps, events and
                 statistics.
"""
