"""The bytes of partitions: what their files take, and what retention deletes of them.

files    The bytes that files take on their file system.
growth   How fast logs grow, and when their file system is full.
measure  The bytes of one partition: what its files take, and what retention deletes of them.
tasks    space_task(): what the bytes of a partition depend on outside of it.
"""
