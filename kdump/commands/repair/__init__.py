"""``kdump repair``: the cures of all partitions of log directories, as one plan.

in_sync  Which other replicas of a partition are in sync, by the newest metadata log at hand.
refetch  plan_refetch(): a partition is moved aside, so that the broker fetches it again.
plan     The plan of a repair of log directories: the cure of each partition, what is left, its id.
course   RepairCourse: the cures of a plan carried out, one partition after the other.
report   The plan of a repair and its end: text, or JSON Lines.
command  ``kdump repair``: log directories repaired, as one plan with one consent and one undo.
"""
