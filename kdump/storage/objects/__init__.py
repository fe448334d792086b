"""Object stores, read through child processes.

address  Addresses such as ``s3://bucket/prefix``, joined and split as paths are.
client   The child processes that talk to object stores, and the requests to them.
server   The answers of a child process: status, listings and bytes of objects.
"""
