"""``kdump export``: records into files of JSON Lines or Parquet, here or on Spark.

parquet   Records to a Parquet file.
output    A file of a task: its format, and the digest of its bytes.
files     The files of a task: by the size of its log and the hour of the records, with what each
          holds.
starts    The log start offset of each partition, and the offsets before its first segment.
task      One task: reads some logs of a topic, and writes their records into files.
manifest  The manifest of an export: its files and their content.
parts     The partitions of an export: their copies, and what of each log is exported.
export    export(): the stages of an export.
command   ``kdump export``: records to Parquet or JSON Lines.
"""
