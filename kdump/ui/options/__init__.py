"""Options that several commands share.

group      option_group(): several options as one argument of a command.
selection  The selection of records that the options describe.
filters    The options that select records.
jobs       The option for the number of processes.
values     The values of options that are sizes and durations.
rate       The option for the rate of reading.
reports    The options of reports: their form, and those of reports with findings.
targets    The PATH arguments and the options that go with them.
state      The options for states: their place, and the age from which everything is read again.
spark      The options of a run on Spark, and its session.
"""
