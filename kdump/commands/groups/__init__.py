"""``kdump groups``: consumer groups and their committed offsets.

group        A group and its committed offsets, from the last records of ``__consumer_offsets``.
share_state  How far share groups have acknowledged, from the records of ``__share_group_state``.
consumption  Groups beside the logs that they consume: lag, offsets outside of a log, expiry.
summary      What was read and found, and the exit code.
csv_lines    The offsets as ``kafka-consumer-groups.sh --reset-offsets --from-file`` takes them.
json_lines   JSON Lines: a line for each group and each of its partitions.
text         A table for each group, with the columns of Kafka's tool.
command      ``kdump groups``: consumer groups and their committed offsets, from the disk of a
             broker.
"""
