"""Manifests: what log directories hold, without the records.

cursor       Cursor: fields out of bytes, one after the other.
sections     The frame of a manifest: the header, the sections, and the trailer that leads to the
             contents.
blocks       Blocks: up to 8,192 batches of a log as columns, and the damage between them.
logs         Logs: the blocks of a log, what recovery sees of it, and what stands at odd positions.
indexes      Indexes: the entries of an offset index or a time index, by the batches that they are
             about.
directories  Directories: the entries of a directory, their status, and where their content is.
contents     Contents: when a manifest was made, of what, and where each directory is in it.

Spec: kdump-manifest-format(5), which tests/format/manifest_reader.py follows too.
"""
