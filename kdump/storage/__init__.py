"""Files and objects to bytes, names, partitions and segments. This layer writes nothing.

names           The grammar of file and directory names in a log directory.
throttle        The read rate, and the priorities at disks and CPUs, beside a running broker.
page_cache      The pages of an open file that the page cache holds.
workers         A pool of forked workers that survives the death of a worker.
rights          File work with the effective ids of a directory's owner.
ownership       Opening of a directory component by component, with the users who could redirect the
                path.
paths           Paths: in the file system, or outside of it, with one way to list and to ask for the
                status.
objects/        Object stores, read through child processes.
source          Source: the bytes of one regular file, mapped or through a reused window.
extents         The extents of a file that it shares with other files: clones (reflinks), snapshots
                of btrfs.
object_source   ObjectSource: the bytes of one object in a store, through a reused window.
walk            walk(): a segment as sound batches and damage. It tells a torn tail, a bad checksum,
                an impossible size and zeros of preallocation apart.
mended_header   mended_header(): a corrupt batch of which only the size or the magic is wrong.
record_runs     The records of batches in the order of a walk, many batches at a time.
manifests/      Manifests as directories: their paths and files are read like those of the file
                system.
access          Opening of a path, in the file system, in a store or in a manifest, as a Source.
repair_record   The folders that repairs have left in a partition: backups and unfinished repairs.
repair_journal  The journals of repairs of whole log directories, each a plain file at the top of
                one.
logdir          Listing of a log directory: partitions, segments and other files.
selection       Selection of batches and records by offset, time, key, producer and count.
liveness        Whether a broker uses a path: live, stopped or unknown, with the reason.
"""
