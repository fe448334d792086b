"""The log directories, partitions and segments that paths as typed name.

target            Target: a partition or lone segment to work on; Root: a path as typed.
inventory         What a target was listed as, which travels beside the target.
node_directories  The log directories of one node, and partitions in several of them.
future_logs       What the next start of a node does with its ``-future`` logs, which a move writes.
context           The node and the settings of each partition.
scope             Scope: the targets of all paths of a command, with their context.
listing           list_scope(): opens the paths of a command and lists them as a Scope.
"""
