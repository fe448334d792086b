"""Pieces that all commands print with.

version     The version of the installed package, and the releases of Kafka that it is for.
kernel      Whether the loops of the kernel run compiled, and a warning where that takes long.
exits       The numbers of the exit codes, and the code of an error that ends a command.
synonyms    The words for a command that does not exist: the one that was probably meant.
units       Counts, sizes, durations and times in words.
paragraphs  Paragraphs of at most 80 columns.
folding     Lists in which equal entries are counted after the first few.
table       Tables of columns as wide as their longest cell.
jsonl       JSON Lines: header, typed lines, summary.
progress    Progress on standard error: a bar, or a line a minute.
"""
