"""``kdump heal``: damaged and missing parts of a log, taken from copies of it.

command  ``kdump heal``: damaged and missing parts of a log, taken from copies of it.
"""
