"""Partition directories moved between log directories of a node.

move    Move: the move of one partition directory to another log directory, as plain values.
course  Course: the steps of a move, in an order in which a broker may start at any moment.
carry   carry_out(), take_back(), discard(): a move done, undone, and its backup removed.
"""
