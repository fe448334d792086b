"""What all repairs share: plans, durable steps, undo, and the content of new files.

rewrite/        Rewriting logs: conversion to magic 2, and the proof by reading back.
transaction/    A repair as a transaction: plan, steps, progress on disk, undo.
content/        The content of small files that repairs write.
journal         The journal of a repair of a log directory: the plans of its partitions.
removal         The oldest segments of a partition removed, segment by segment, or files that no log
                needs.
saved_segments  Segments saved on another file system before they are removed, and brought back from
                there.
relocation/     Partition directories moved between log directories of a node.
newdir/         New partition directories.
side_files/     The files beside the logs of a partition, rebuilt.
truncation/     The truncation of a log, where log recovery truncates it or at an offset.
healing/        The logs of a healed partition: damaged and missing parts, taken from copies of it.
dropping/       Corrupt batches dropped from the logs of a partition; the valid ones stay.
fields/         Fields of batches that no checksum covers, set to the value that the log leaves
                them.
"""
