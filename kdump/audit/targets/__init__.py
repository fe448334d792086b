"""From paths as typed to log directories, partitions and segments.

target            The partitions and segments that a path leads to.
node_directories  The log directories of one node, and partitions that have several places in it.
context           The node and the settings around each partition.
targets           Targets: what all paths of a command lead to, with their context.
listing           Listing of the paths of a command as targets.
"""
