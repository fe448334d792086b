"""Rewriting logs: conversion to magic 2, and the proof by reading back.

prefix          PrefixSource: a Source that ends at a given position of another.
batch_digests   Digests of the records of batches of magic 2 in a file.
preconditions   The logs that a conversion refuses: damaged, out of order, overlapping.
conversion      Conversion: the batches of a log with messages of magic 0 and 1 rewritten as magic
                2.
measure         measure(): sizes and digests of a conversion, found without writing.
log_workers     The same work on several logs, in forked workers or in this process.
read_back       A written log, read again from its file and compared.
write_and_read  Writing and reading back of logs by two processes, or by one.
"""
