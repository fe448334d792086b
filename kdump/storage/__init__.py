"""Reading files: the layer between a broker's disk and the formats.

Spec: org.apache.kafka.storage.internals.log, as far as it reads. Nothing here writes, creates,
locks or renames anything.
"""
