"""Options that several commands share.

filters    The options that select records.
selection  The selection of records that the options describe.
targets    The PATH arguments and the options that go with them.
spark      The options of a run on Spark, and its session.
"""
