"""Scrubs: runs that remember what was read of each segment, when, and what it was like.

files        The files of states: where they may be, whose rights write them, how they are replaced.
records      The values of the state: what was read of a segment, and the course of a run.
rows         The rows of a state: their columns, and the digest by which a row that flipped is
             found.
state        State: what was read of each segment, when, and what was found, in a file of SQLite.
state_file   Opens the file of a state: its lock, its version, and that it is a state at all.
directories  Which directory of the state a root is, also after a move to another mount.
due          What is due: the segments of log directories beside the state, and the order of
             reading.
changes      Changes of a segment between two readings that no broker makes.
removed      Sealed segments that are gone before retention could delete them.
reading      Reads one segment, in a worker: its verdict, and what the state keeps of it.
deadline     Deadline: the end of the time that a run may take, also amid the read of a segment.
metrics      The metrics of scrubs, as the textfile collector of node_exporter reads them.
unchanged    The segments that a scrub has read, and that have not changed since.
scrub        Scrub: one run over log directories: the quick pass, then the segments that are due.
"""
