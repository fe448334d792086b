"""One module for each command.

verify_engine  Where ``verify`` runs: the worker pool or the Spark session, behind one interface.
verify         ``kdump verify``: what is on disk, what is wrong, what the next start does.
scrub_run      The course of a scrub: quick pass, reading, report, metrics.
scrub          ``kdump scrub``: reads everything once in a while, and remembers what it read.
next_start     ``kdump next-start``: what a broker does at its next start.
manifest       ``kdump manifest``: log directories without their records, in one file.
compare        ``kdump compare``: the copies of partitions on several brokers.
dump           ``kdump dump``: the content of segments and small files.
groups         ``kdump groups``: consumer groups and their committed offsets, from the disk of a
               broker.
transactions   ``kdump transactions``: transactions of coordinators and in logs, from the disk of a
               broker.
metadata       ``kdump metadata``: the metadata image of a KRaft node, from its disk.
quorum         ``kdump quorum``: the state of a KRaft quorum, from the disks of its controllers.
exports/       The command that writes records into files, and the one that checks these files.
explain        ``kdump explain``: finding codes and lines of a server.log.
repair/        The commands that change partitions, or write new ones.
help           ``kdump help``: the manual, as it was installed.
"""
