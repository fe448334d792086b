"""The command that writes records into files, and the one that checks these files.

export  ``kdump export``: records to Parquet or JSON Lines.
check   ``kdump check``: the files of an export against its manifest.
"""
