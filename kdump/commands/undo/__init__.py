"""``kdump undo``: repairs taken back, and their backups.

command  ``kdump undo``: lists, shows, takes back or deletes the backups of repairs.
"""
