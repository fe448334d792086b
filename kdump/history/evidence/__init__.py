"""What runs on Spark remember: the evidence of sealed segments, in files that tasks write.

encoding   Surveys as bytes, from which nothing but surveys can be made.
rows       The evidence of sealed segments as rows, and files of Parquet with them.
files      The files of a state, in the file system or in a store.
directory  The directory of a state: its place and its rights, and where the evidence of a log
           directory is.
memory     The evidence of one partition in a task: what need not be read again, and what is new.
"""
