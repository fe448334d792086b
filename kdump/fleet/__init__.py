"""The same work on Spark, over many hosts and object stores.

session/    Sessions of Spark.
job/        Jobs of Spark: tasks in, rows out.
verify/     ``kdump verify`` on Spark.
source/     What the Spark data source reads: options, paths, offsets and columns.
datasource  The Spark data source: ``spark.read.format("kdump").load(path)``.
"""
