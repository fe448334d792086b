"""The same work on Spark, over many hosts and object stores.

session/    Sessions of Spark.
job/        One job of Spark: tasks in, rows out.
verify/     ``kdump verify`` on Spark.
datasource  The Spark data source: ``spark.read.format("kdump").load(path)``.
"""
