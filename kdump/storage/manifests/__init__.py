"""Manifests as directories: their paths and files are read like those of the file system.

file     ManifestFile: the sections of a manifest, read when they are needed.
path     ManifestPath: a path in a manifest, below the path of its file.
log      LogInManifest: a log in a manifest as a Source, whose pieces are stored.
opening  Opening of a path in a manifest, as a Source.
"""
