"""The reports of ``groups``.

summary     What was read and found, and the exit code.
text        A table for each group, with the columns of Kafka's tool.
json_lines  JSON Lines: a line for each group and each of its partitions.
csv_lines   The offsets as ``kafka-consumer-groups.sh --reset-offsets --from-file`` takes them.
"""
