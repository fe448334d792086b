"""``kdump transactions``: transactions of coordinators and in logs.

open_transactions  The open transactions of a log, as a broker that loads it finds them.
transaction_state  The state of a transactional id, from the last records of
                   ``__transaction_state``.
transactions       Transactions of coordinators beside the logs that they write to: which are late,
                   which hang.
selection          Which transactions of a run are shown, and the exit code.
report             Transactional ids and open transactions: tables and commands, and JSON Lines.
command            ``kdump transactions``: transactions of coordinators and in logs, from the disk
                   of a broker.
"""
