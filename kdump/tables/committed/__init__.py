"""The records that a read_committed consumer gets, of one log or of several copies.

ranges    Ranges of offsets: union, intersection, difference.
batches   The batches that a read_committed consumer gets.
replicas  The copy of a partition from which each offset is taken.
plan      What one log holds: its offsets, gaps and transactions, read once before an export.
"""
