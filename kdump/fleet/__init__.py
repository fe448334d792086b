"""The same work on Spark, over many hosts and object stores.

session/  Sessions of Spark.
job/      One job of Spark: tasks in, rows out.
tables/   Arrow tables of records, batches and findings.
api       The functions behind the Spark commands, for notebooks and programs.
verify/   ``kdump verify`` on Spark.
export/   ``kdump export``: records to Parquet or JSON Lines.
"""
