"""``kdump salvage``: a new partition from the sound batches of a damaged one.

backup        The logs that a finished repair has moved into its backup.
marker        A transaction marker that replaces a lost marker.
stretches     Stretches of batches that a salvage reads, and the pieces between them.
merging       The log of a partition put together from several copies.
overlap       Resolving stretches whose offsets overlap or go backwards.
selection     The stretches that a salvage takes, and what it leaves.
logs          The logs of the new partition.
offset_gaps   The offsets that a salvage leaves out, and the pieces that held them.
lost_markers  The markers that a salvage writes for transactions without an end.
topic_id      The topic id of the new partition, and what a broker does with it.
receipt       The receipt of a salvage.
report        The report of a salvage.
salvage       salvage(): the new partition directory, from reading to receipt.
command       ``kdump salvage``: sound batches copied to a new partition.
"""
