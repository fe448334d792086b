"""Messages in a broker's server.log about its log directories.

entries      Lines of a log as entries: level, text and stack trace.
message      Message: a pattern of logged text, and the answer to it.
answers      Answers that several messages share.
directories  Messages about log directories as a whole, mostly at a start.
segments     Messages about segments during loading, recovery and serving.
indexes      Messages about offset, time and transaction indexes and producer snapshots.
small_files  Messages about checkpoints, ``partition.metadata`` and ``meta.properties``.
replicas     Messages about replicas: fetches, truncation, moves between directories.
serving      Messages of a running broker: appends, fetches, cleaning, retention, disk errors.
metadata     Messages about the metadata log, its snapshots and ``quorum-state``.
elsewhere    Frequent messages that do not concern log directories.
table        The table of all messages, and the search for the message of an entry.
report       The entries of a log in groups: damage, consequences, other messages.
"""
