"""The log directories, partitions and segments that paths as typed name.

target            The partitions and segments that a path names.
node_directories  The log directories of one node, and partitions in several of them.
context           The node and the settings of each partition.
scope             Scope: the targets of all paths of a command, with their context.
listing           Lists the paths of a command as targets.
"""
