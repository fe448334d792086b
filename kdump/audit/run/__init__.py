"""The passes of a run over many partitions.

quick_survey  quick_survey(): reads the ends of a segment's files.
gather        gather(): reads the evidence of a partition beside its segments.
tasks         Surveys as tasks for a worker or a Spark executor.
recheck       Which files are read again before an error is reported, and which findings remain.
reconcile     Reconciliation of findings with a second read, where files have changed.
prescan       The quick pass over all partitions that every run begins with.
verify        verify(): verifies all segments over a pool of workers, partition by partition.
"""
