"""``kdump manifest``: log directories without their records, in one file.

key          read_key(): the secret that the names in an anonymous manifest are derived from.
log_folding  fold_log(): reads a log and its indexes once, and emits them as sections.
names        Names of topics in an anonymous manifest, and the small files that hold names.
output       Output: a new manifest, section by section.
tree         The directories of a manifest: what is listed, and the files whose bytes are stored.
small_files  SmallFiles: the small files of a manifest, and why others are not in it.
making       make_manifest(): reads log directories and writes their manifest.
command      ``kdump manifest``: log directories without their records, in one file.
"""
