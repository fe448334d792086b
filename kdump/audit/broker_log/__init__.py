"""What a broker's log says about its log directories.

- ``entries``: lines of a log to entries, each a line with its level and the trace below it
- ``message``: a row of the table, and the match of a pattern with an entry
- ``directories``, ``small_files``, ``segments``, ``indexes``, ``metadata``, ``serving``,
  ``replicas``, ``elsewhere``: the rows, by what they are about
- ``answers``: what several of them say
- ``table``: all rows, and which of them an entry holds
- ``report``: the entries of a whole log in groups, with the cause of each consequence

Spec: the messages of the modules core, storage, raft, metadata, server and clients, 3.9 to 4.3.
It must never read a file: it takes lines.
"""
