"""The reports of ``verify`` and ``next-start``.

summary     The sums and the exit code of a run.
json_lines  The JSON Lines of ``verify``.
partition   What damage in a partition means, and the choices.
plan        The numbered plan at the end of a report on a log directory.
text        The text report of ``verify``.
next_start  The reports of ``next-start``.
"""
