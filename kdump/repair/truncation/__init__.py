"""The truncation of a log, where log recovery truncates it or at an offset.

cut_point      The position and offset at which a log is cut.
notes          The notes of a plan to cut: reasons, losses, alternatives.
remaining_log  The log after a cut: its last segment and its replay.
steps          The order of the steps of a cut.
plan           plan_truncate(): a log cut where recovery would cut it, or at an offset.
"""
