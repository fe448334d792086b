"""``kdump reindex``: the files beside the logs.

command  ``kdump reindex``: indexes, snapshots, epochs and checkpoints from the logs.
"""
