"""Files that kdump makes of logs and of runs: Parquet and JSON Lines, here or on Spark.

ranges       Ranges of offsets: union, intersection, difference.
replicas     The copy of a partition from which each offset is taken.
committed    The batches that a read_committed consumer gets.
plan         What one log holds: its offsets, gaps and transactions, read once before an export.
spread       Where the tasks of an export run: in workers of this process, or on Spark.
starts       The log start offset of each partition, and its offsets that are in remote storage
             only.
upload       New objects in a store, visible once closed.
destination  The directory or prefix that new files appear in: a new one of an export, or one that
             grows.
run_tables   Tables that a run is appended to: one Parquet file for each table.
output       A file of a task: its format, and the digest of its bytes.
files        The files of a task: by the size of its log and the hour of the records, with what each
             holds.
task         One task: reads some logs of a topic, and writes their records into files.
manifest     The manifest of an export: its files and their content.
parts        The partitions of an export: their copies, and what of each log is exported.
export       export(): the stages of an export.
check        The files of an export against its manifest.
"""
