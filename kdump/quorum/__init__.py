"""The copies of a metadata log, on the controllers of a KRaft quorum.

voter_set  Sets of voters, static or dynamic (KIP-853), and the leaders that they elected.
batches    The batches and control records of a metadata log, as columns.
replica    A node's copy of the metadata log, and its end after the next start.
reading    Reads the copies at the paths of a command.
lineage    Two copies side by side: the offsets that they share, and their content.
"""
