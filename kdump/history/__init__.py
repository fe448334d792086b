"""What earlier runs read of each segment, when, and what it was like.

records      The values of the state: what was read of a segment, and the course of a run.
changes      Changes of a segment between two readings that no broker makes.
rows         The rows of a state: their columns, and the digest by which a row that flipped is
             found.
state        State: what was read of each segment, when, and what was found, in a file of SQLite.
directories  Which directory of the state a root is, also after a move to another mount.
due          What is due: the segments of log directories beside the state, and the order of
             reading.
evidence/    What runs on Spark remember: the evidence of sealed segments, in files that tasks
             write.
state_file   Opens the file of a state: its lock, its version, and that it is a state at all.
"""
