"""``kdump check``: the files of an export against its manifest.

check    The files of an export against its manifest.
text     The report of ``kdump check``: text, or JSON Lines with a line for each file.
command  ``kdump check``: the files of an export against its manifest.
"""
