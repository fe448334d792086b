"""Plans, receipts and backups.

logs     Converted logs: sizes before and after, and the proof.
steps    The steps of a plan in sentences.
text     Plans, receipts and backups as text.
outputs  Reports of commands that write new directories.
report   The report of a repair as text or JSON Lines.
convert  The report of a conversion to a new directory.
salvage  The report of a salvage.
"""
