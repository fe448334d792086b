"""``kdump space``: what takes the space of log directories, and what retention frees.

shorter  Shorter retention that frees a number of bytes: the oldest records of all topics first.
space    The space of log directories: file systems, topics, and what belongs to no log.
report   The report of ``kdump space``: text, or JSON Lines with a line for each topic.
command  ``kdump space``: what takes the space of log directories, and what retention frees.
"""
