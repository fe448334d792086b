"""``kdump metadata``: the metadata image of a KRaft node.

entries         An image as rows of tables, its entries of plain values, and the differences between
                two images.
problems        What was not replayed, and the exit code.
json_lines      JSON Lines: a line for each part of an image, or for each difference.
difference      The differences between two images for people.
kafka_commands  Commands of Kafka's tools that make topics, configs, quotas and ACLs again.
text            The image in sections for people.
command         ``kdump metadata``: the metadata image of a KRaft node, from its disk.
"""
