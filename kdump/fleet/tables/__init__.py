"""Arrow tables of records, batches and findings.

schema       The columns of the tables, in Arrow and in Spark.
findings     Rows of the table of findings.
records      Records of any magic and codec as Arrow columns.
record_runs  The records of batches in the order of a walk, many batches at a time.
batches      Rows of the table of batches.
tables       Reads logs, and yields the tables of records, batches and findings as Arrow batches.
datasource   The Spark data source: ``spark.read.format("kdump").load(path)``.
"""
