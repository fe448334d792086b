"""New partition directories.

appearance  A directory that appears under its name complete, or not at all.
output      The place, the proof and the receipt of a new partition directory.
"""
