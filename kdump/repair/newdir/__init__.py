"""New partition directories.

building  A directory that appears under its name complete, or not at all.
output    The path, the files, the verification and the receipt of a new partition directory.
"""
