"""The reports of ``verify`` and ``next-start``.

summary     The sums of a ``verify`` run, and its exit code.
first_line  What the first line of a report says of what was read, and the command that reads the
            rest.
json_lines  The JSON Lines of ``verify``.
partition   The losses of a partition, and the commands to choose from.
plan        The numbered plan at the end of a report on a log directory.
run_tables  The tables that ``verify --to`` appends to.
entries     The entries of a list in text: findings, and partitions with the worst of theirs.
text        The text report of ``verify``.
next_start  The reports of ``next-start``, and its exit code.
"""
