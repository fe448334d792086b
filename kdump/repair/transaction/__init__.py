"""A repair as a transaction: plan, steps, progress on disk, undo.

plan          Plan: the steps of a repair of one partition and what they cost, as plain values, and
              their JSON.
directories   The directories of a repair, opened once as descriptors that follow no link.
assembly      Logs put together of pieces of other logs, and of bytes.
disk          The durable file operations; all other modules change files through them.
fingerprint   The files of a partition as a plan identifies them.
folder        The folder of a repair in its partition: plan, backup, progress, receipt.
lock          The lock on a log directory, and the conditions of any change in it.
shared_files  The files of the log directory that all partitions share: checkpoints, the marker.
preparation   Preparation: what a repair saves and writes into its folder before the first change.
staging       Converted logs written into the folder of a repair, and read back there.
repair        Repair: the steps of a plan, with the state of each, and how each is done and undone.
interruption  The report of an interrupted repair: steps done, steps left.
apply         apply(): the steps of a plan in order; resume(): those that an interruption left.
undo          undo(): reverts the newest repair; discard(): deletes its backup.
"""
