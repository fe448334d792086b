"""``kdump groups``: consumer groups and their committed offsets.

group        A group and its committed offsets, from the last records of ``__consumer_offsets``.
share_state  How far share groups have acknowledged, from the records of ``__share_group_state``.
consumption  Groups beside the logs that they consume: lag, offsets outside of a log, expiry.
summary      What was read and found, and the exit code.
report       The columns of committed offsets, and reports of groups: text, JSON Lines and CSV.
command      ``kdump groups``: consumer groups and their committed offsets, from the disk of a
             broker.
"""
