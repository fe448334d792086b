"""The state of a KRaft quorum, from the disks of its controllers.

voter_set   Sets of voters, static or dynamic (KIP-853), and the leaders that they elected.
batches     The batches and control records of a metadata log, as columns.
replica     A node's copy of the metadata log, and its end after the next start.
reading     Reads the copies at the paths of a command.
lineage     Two copies side by side: the offsets that they share, and their content.
divergence  Copies of one metadata log that hold different records at offsets that are committed.
problems    Problems and notes: their kinds, and those of a single copy.
election    The votes that a copy gets from the others, and whether it can lead.
replacement New disks for voters whose disks are lost, so that the others elect a leader again.
state       The state of the quorum: elections, losses, problems, and what to do.
"""
