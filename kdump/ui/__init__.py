"""What commands share of their options and reports.

version           The version of the installed package, and the releases of Kafka that it is for.
kernel            Whether the loops of the kernel run compiled, and a warning where that takes long.
command           The class of all commands: a brief ``--help``, and the whole help.
exits             The ending of a run, and the exit code that follows from it.
units             Counts, sizes, durations and times in words.
paragraphs        Paragraphs of at most 80 columns.
folding           Lists in which equal entries are counted after the first few.
jsonl             JSON Lines: header, typed lines, summary.
html/             Reports as HTML: one file, without a script and without an address.
table             Tables of columns: rows as text, as JSON Lines and as CSV.
progress          Progress on standard error: a bar, or a line a minute.
coordinator_logs  Faults in the logs of coordinators, in text and in JSON.
options/          Options that several commands share.
verdicts/         Reports of verdicts: text, and JSON Lines.
repairs/          Repairs at the command line: plans, consent, receipts and backups.
"""
