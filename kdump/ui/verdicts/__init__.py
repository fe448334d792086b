"""Reports of verdicts: text, and JSON Lines.

forecast_json  The JSON line of a forecast.
forecast_text  A forecast in words.
partition      The losses of a partition, and the commands to choose from.
summary        The sums of a ``verify`` run, and its exit code.
plan           The numbered plan at the end of a report on a log directory.
first_line     What the first line of a report says of what was read, and the command that reads the
               rest.
json_lines     The JSON Lines of ``verify``.
verdict_text   The first line of a report: its state, what is lost, and what the next start does.
entries        The entries of a list in text: findings, and partitions with the worst of theirs.
text           The text report of ``verify``.
pictures       The pictures of verdicts: logs as their segments, and topics by their size and age.
"""
