"""``kdump verify`` on Spark.

packed_targets  The targets of a listing with their inventories, as the driver keeps them.
ledger          The proof that executors have read each log exactly once: a row for each reading.
packed          Values of log directories that the driver holds compressed.
listing         The listing stages, which executors run where the disks are.
verify          verify() and the quick pass as stages of Spark.
groups          Stages over groups of targets on Spark.
"""
