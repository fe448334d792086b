"""The reports of ``transactions``.

selection   Which transactions of a run are shown, and the exit code.
text        Tables of transactional ids and of open transactions, and commands.
json_lines  JSON Lines: a line for each transactional id and each open transaction.
"""
