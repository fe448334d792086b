"""Arrow tables of records, batches, findings and copies.

logs        The logs whose records are read, and the origin of these records.
corruption  Ranges of a log whose records cannot be read, and their reports to the caller.
selected    The records of a log with selected offsets, and what of them cannot be read.
absent      Offsets of a partition that no log of its directory has.
schema      The columns of the tables, in Arrow and in Spark.
findings    Rows of the table of findings.
copies      Rows of the table of copies.
records     Records of any magic and codec as Arrow columns.
tables      Reads logs, and yields the tables of records, batches and findings as Arrow batches.
api         Records, batches, findings and copies for notebooks and programs, read by this process
            or its workers.
committed/  The records that a read_committed consumer gets, of one log or of several copies.
"""
