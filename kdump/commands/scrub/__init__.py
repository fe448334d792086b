"""``kdump scrub``: reads everything once in a while, and remembers what it read.

deadline    Deadline: the end of the time that a run may take, also amid the read of a segment.
json_lines  The JSON Lines of a scrub, and of the state of log directories.
metrics     The metrics of scrubs, as the textfile collector of node_exporter reads them.
reading     Reads one segment, in a worker: its verdict, and what the state keeps of it.
scrub       Scrub: one run over log directories: the quick pass, then the segments that are due.
text        The text report of a scrub, and the state of log directories in words.
run         The course of a scrub: quick pass, reading, report, metrics.
command     ``kdump scrub``: reads everything once in a while, and remembers what it read.
"""
