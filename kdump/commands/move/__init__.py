"""``kdump move``: partition directories moved between log directories of a node.

plan     The plan of moves: what is in the way, the room that they take, what brokers do then.
report   The plan of moves and their end: text, or JSON Lines.
command  ``kdump move``: partition directories moved between log directories of a node.
"""
