"""``kdump compare``: the copies of partitions on several brokers.

advice    The sequence of steps after a comparison: repair, compare again, and only then start and
          elect.
summary   The sums of a ``compare`` run, its verdict, and its exit code.
report    The copies of each partition, what parts them, and what follows from that: text and JSON
          Lines.
html      The text as a page, with a picture of each partition.
command   ``kdump compare``: the copies of partitions on several brokers.
"""
