"""``kdump trim``: the oldest segments removed, while the broker is stopped.

bound      The segments that may go: up to an offset or a time, by retention, or to free bytes.
plan       The plan of a trim: the segments that go, what stays for which reason, its id.
leftovers  The plan of a trim that removes what no log of a stopped broker needs.
apply      carry_out(): all that a plan names, removed partition by partition.
report     The plan of a trim and its end: text, or JSON Lines.
command    ``kdump trim``: the oldest segments removed, while the broker is stopped.
"""
