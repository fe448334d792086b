"""Repairs at the command line: plans, consent, receipts and backups.

logs       Converted logs: sizes before and after, and the proof.
outputs    Reports of commands that write new directories.
steps      The steps of a plan in sentences.
text       Plans, receipts and backups as text.
report     The report of a repair as text or JSON Lines.
repairing  The course of every repair command: plan, report, consent, apply, exit code.
"""
