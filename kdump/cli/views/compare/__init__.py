"""The reports of ``compare``.

advice      The order in which brokers are started after a comparison, and the commands that follow
            it.
summary     The sums of a ``compare`` run, and its exit code.
json_lines  JSON Lines: a line for each copy, leader and difference.
text        The copies of each partition, what parts them, and what follows from that, for people.
"""
