"""The ``kdump`` command itself.

synonyms  The words for a command that does not exist: the one that was probably meant.
main      The ``kdump`` command: finds the sub-command, runs it, maps exceptions to exit codes.
"""
