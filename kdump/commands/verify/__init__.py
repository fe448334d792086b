"""``kdump verify``: what is on disk, what is wrong, what the next start does.

divergence  Copies of one metadata log that hold different records at offsets that are committed.
run_schema  The columns of the tables that runs of ``kdump verify`` are appended to.
run_files   Tables that a run is appended to: one Parquet file for each table.
run_tables  The tables that ``verify --to`` appends to.
unchanged   The segments that a scrub has read, and that have not changed since.
engine      Where ``verify`` runs: in workers of this process or on Spark; both return the same
            findings.
command     ``kdump verify``: what is on disk, what is wrong, what the next start does.
"""
