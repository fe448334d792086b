"""Object stores, read through child processes.

address      Addresses such as ``s3://bucket/prefix``, joined and split as paths are.
status       What a store says of an object, and how long it is waited for.
s3           One bucket of S3: status, listings and conditional reads, one request for each range.
arrow        Stores as pyarrow knows them: all that is written, and what is read from others than
             S3.
server       The answers of a child process: status, listings and bytes of objects.
client       The child processes that talk to object stores, and the requests to them.
listings     The last listings of prefixes in S3: a listing has the status of each object.
ranges       Ranges of objects that were read last, or were asked for ahead of their use.
remote_path  RemotePath: an address with the status and the listing that its store gives.
"""
