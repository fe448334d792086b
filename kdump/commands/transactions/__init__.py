"""``kdump transactions``: transactions of coordinators and in logs.

open_transactions  The open transactions of a log, as a broker that loads it finds them.
transaction_state  The state of a transactional id, from the last records of
                   ``__transaction_state``.
transactions       Transactions of coordinators beside the logs that they write to: which are late,
                   which hang.
selection          Which transactions of a run are shown, and the exit code.
json_lines         JSON Lines: a line for each transactional id and each open transaction.
text               Tables of transactional ids and of open transactions, and commands.
command            ``kdump transactions``: transactions of coordinators and in logs, from the disk
                   of a broker.
"""
