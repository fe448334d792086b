"""``kdump verify`` on Spark.

inventory  The targets of a listing and their files, as the driver keeps them.
ledger     The proof that executors have read each log exactly once: a row for each reading.
packed     Values of log directories that the driver holds compressed.
listing    The listing stages, which executors run where the disks are.
task       The tasks of executors: each reads segments by ``audit.run.tasks``, or gives the verdict
           of a partition.
verify     verify() and the quick pass as stages of Spark.
groups     Stages over groups of targets on Spark.
"""
