"""``kdump truncate-to-valid``: the cut of a log.

command  ``kdump truncate-to-valid``: a log cut where recovery would cut it.
"""
