"""``kdump convert-v0-v2``: old messages to magic 2.

notes     The notes of a conversion.
steps     The order of the steps of a conversion in place.
plan      plan_convert(): the conversion of a partition in place.
receipt   The receipt of a conversion to a new directory.
report    The report of a conversion to a new directory.
segments  The files of one segment of a converted partition.
output    convert_to(): the conversion of a partition to a new directory.
command   ``kdump convert-v0-v2``: old messages to magic 2.
"""
