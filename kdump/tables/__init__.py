"""Arrow tables of records, batches and findings.

logs      The logs whose records are read, and the origin of these records.
schema    The columns of the tables, in Arrow and in Spark.
findings  Rows of the table of findings.
records   Records of any magic and codec as Arrow columns.
batches   Rows of the table of batches.
parquet   Records to a Parquet file.
tables    Reads logs, and yields the tables of records, batches and findings as Arrow batches.
api       Records, batches and findings for notebooks and programs, read by this process or its
             workers.
"""
