"""Jobs of Spark: tasks in, rows out.

packing  Packing of small tasks into tasks of about one size, and the size of jobs.
job      Jobs of Spark, some at a time: progress, and cancellation on signals.
spread   spread(): one function over many tasks on all executors.
"""
