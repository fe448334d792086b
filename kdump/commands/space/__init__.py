"""``kdump space``: what takes the space of log directories, and what retention frees.

shorter       Shorter retention that frees a number of bytes: the oldest records of all topics
              first.
cleaner       The cleaner of each node: the partition that it takes next, and whether it stands
              still.
space         The space of log directories: file systems, topics, and what belongs to no log.
cleaner_text  What the report says of compaction: what waits for the cleaner, and what keeps it from
              more.
report        The report of ``kdump space``: text, or JSON Lines with a line for each topic.
command       ``kdump space``: what takes the space of log directories, and what retention frees.
"""
