"""A broker's next start: what its loader deletes, cuts, recovers and refuses.

swaps            The segments that a loader opens beside files of an unfinished cleaning or split.
outcome          The values of a start: facts of logs, releases, causes, cuts.
open_log         A segment during loading.
unread_tail      The number of records that the damage at the end of a log may have held.
snapshot_reload  The producer snapshots that a loader deletes and writes, and the segments it
                 reads for them.
inputs           Reads the facts of logs that the loader needs.
room             The room that a start takes on a file system.
loader           The loader's work on one partition, step by step, on facts alone, with the reason
                 why each segment is recovered.
swap_loss        The records that a ``.swap`` file leaves out when it replaces segments.
future_loss      The records of a current log that the future log in its place does not hold.
forecast         forecast(): predicts the next start of a partition and of a log directory.
"""
