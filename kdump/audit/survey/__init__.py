"""One pass over a segment and its indexes; the result is small and can travel.

log_end          The end that a loader finds in a segment that it does not recover.
recovery         What recovery of one segment cuts, keeps and reads.
rebuilt_indexes  The offset and time index that recovery writes for a segment.
index_promises   The promises of existing index entries, checked while the batches pass.
compaction       Whether settings and batches show that the cleaner has been at a log.
anomalies        Oddities in headers of batches that a broker accepts.
events           Producer, transaction and leader epoch events of a segment, in offset order.
survey           survey(): one pass over a segment, with damage, offsets, timestamps, events and
                 statistics.
"""
