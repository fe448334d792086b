"""The command line: arguments in, reports and exit codes out.

ui/        Pieces that all commands print with.
main       The ``kdump`` command: finds the sub-command, runs it, maps exceptions to exit codes.
options/   Options that several commands share.
views/     Reports as text and JSON.
commands/  One module for each command.
"""
