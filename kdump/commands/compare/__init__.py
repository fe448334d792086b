"""``kdump compare``: the copies of partitions on several brokers.

advice      The sequence of steps after a comparison: heal, compare again, and only then start and
            elect.
summary     The sums of a ``compare`` run, and its exit code.
json_lines  JSON Lines: a line for each copy, leader and difference.
text        The copies of each partition, what parts them, and what follows from that, for people.
command     ``kdump compare``: the copies of partitions on several brokers.
"""
