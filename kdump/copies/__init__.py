"""Copies of partitions on several brokers: what they share, and where they differ.

lineage     Leader epochs side by side: where two logs part, and where a follower truncates its own.
copy        Copy: one copy of a partition, as far as comparisons and elections see it.
content     Two logs side by side, batch by batch, where their digests differ.
comparison  compare(): the copies of one partition beside each other.
fields      The fields of JSON Lines and of table rows about copies.
reading     The copies of partitions at the paths of a command, and the stages of their comparison.
"""
