"""A repair as a transaction: plan, journal, steps, undo.

plan          Plan: the steps of a repair of one partition and what they cost, as plain values.
recipes       The content of a file that a plan names by a recipe.
directories   The directories of a repair, opened once as descriptors that follow no link.
disk          The durable file operations; all other modules change files through them.
fingerprint   The files of a partition as a plan identifies them.
folder        The folder of a repair in its partition: plan, journal, backup, receipt.
lock          The lock on a log directory, and the conditions of any change in it.
states        The state of each step of a plan, found from the files.
steps         The steps of a plan: how each is done and undone; each can be repeated.
staging       Converted logs written into the folder of a repair, and read back there.
interruption  The report of an interrupted repair: steps done, steps left.
apply         apply(): the steps of a plan in order; resume(): those that an interruption left.
undo          undo(): reverts the newest repair; discard(): deletes its backup.
"""
