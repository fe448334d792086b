"""The passes of a run over many partitions.

spread        Where the tasks of a run are done: in workers of this process, or on Spark.
ahead         Requests to object stores for what will be read next, at the same time.
quick_survey  quick_survey(): reads the ends of a segment's files.
gather        gather(): reads the facts of a partition from its small files and ``.swap`` logs.
recheck       The rules of a second read: what is read again, which findings remain. Reads nothing.
reconcile     The second read of a partition whose files have changed, and its verdict.
verification  The full pass over a target, as stages: a survey of each segment, a verdict on the
              results.
prescan       The quick pass over all partitions that every run begins with.
lost_segments  lost_segments(): the offsets of a partition whose segments are gone, without a
              deletion.
gone_partitions  gone_partitions(): the partitions that a node should have here, and whose
              directories are gone.
target_tasks  A verification as tasks that travel: each reads segments, or gives the verdict on a
              target.
verify        verify(): verifies all segments over a pool of workers, partition by partition.
groups        A run over groups of targets, described as stages, and its runner in this process.
"""
