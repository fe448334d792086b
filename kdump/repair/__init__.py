"""Changing what is on disk: plans, durable steps, and undo.

rewrite/      Rewriting logs: conversion to magic 2, and the proof by reading back.
transaction/  A repair as a transaction: plan, steps, progress on disk, undo.
content/      The content of small files that repairs write.
newdir/       New partition directories.
reindex/      ``kdump reindex``: the files beside the logs.
truncate/     ``kdump truncate-to-valid``: the cut of a log.
heal/         ``kdump heal``: damaged and missing parts of a log, taken from copies of it.
salvage/      ``kdump salvage``: a new partition from the sound batches of a damaged one.
convert/      ``kdump convert-v0-v2``: old messages to magic 2.
"""
