"""``kdump export``: records to Parquet or JSON Lines, in workers or on Spark.

ranges       Ranges of offsets: union, intersection, difference.
replicas     The copy of a partition from which each offset is taken.
committed    The batches that a read_committed consumer gets.
plan         What one log holds: its offsets, gaps and transactions, read once before an export.
upload       New objects in a store, visible once closed.
destination  The new directory or prefix of an export, from first file to manifest.
output       The file of a task: its format, and the digest of its bytes.
task         One task: reads some logs, and writes their records into one file.
manifest     The manifest of an export: its files and their content.
spread       Where the tasks of an export run: in workers of this process, or on Spark.
export       export(): the stages of an export.
"""
