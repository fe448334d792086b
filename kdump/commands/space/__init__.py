"""``kdump space``: what takes the space of log directories, and what retention frees.

shorter         Shorter retention that frees a number of bytes: the oldest records of all topics
                first.
delete_records  The offsets up to which ``kafka-delete-records.sh`` frees a number of bytes.
reassignment    Reassignments that free a number of bytes on this node, and lose no record.
ways            The ways to free a number of bytes on the file system of log directories.
cleaner         The cleaner of each node: the partition that it takes next, and whether it stands
                still.
sample          The compression of a topic by a sample of its batches, and what zstd would make of
                them.
space           The space of log directories: file systems, topics, and what belongs to no log.
cleaner_text    What the report says of compaction: what waits for the cleaner, and what keeps it
                from more.
sample_text     What the report says of samples: compression types, and the logs as zstd would make
                them.
ways_text       What the report says of the ways to free bytes: numbered, the least harm first.
report          The report of ``kdump space``: text, or JSON Lines with a line for each topic.
command         ``kdump space``: what takes the space of log directories, and what retention frees.
"""
