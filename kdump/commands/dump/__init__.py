"""``kdump dump``: the content of segments and small files.

differences  Where the text of ``dump`` differs from Kafka's own dump tool, and why.
entries      Entries of a file without batches, and their lines.
files        The content of a file without batches, in file order.
lines        Lines around batches and records: files, damage, coverage and the exit code.
records      The files of a dump, printed piece by piece.
run          The run of a dump: files found, opened and printed.
totals       Sums over batches: counts, sizes, compression, producers, transactions.
summary      The summary of a dump, a table or a JSON object for each partition.
command      ``kdump dump``: the content of segments and small files.
"""
