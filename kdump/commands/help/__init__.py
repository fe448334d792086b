"""``kdump help``: the manual, as it was installed.

command  ``kdump help``: the manual, as it was installed.
"""
