"""Bytes to values and back: the formats of Kafka's files. This layer opens no file and reads no
clock.

nocython       Stands in for Cython's ``cython`` where that is not installed: decorators that do
               nothing.
kernel/        The loops that touch every byte or row: Python that runs as it is, and that the
               installation compiles with Cython.
codecs         Decompression and compression of a batch's record block, bounded by a limit in
               bytes.
snapshot       Producer snapshots, the ``.snapshot`` files of a partition.
checkpoint     The text checkpoints: the four offset checkpoints and ``leader-epoch-checkpoint``.
messages/      Messages of Kafka's internal topics: bytes to fields, by tables.
control        Control records: transaction markers, leader changes, snapshot headers and footers.
properties     ``meta.properties``, ``partition.metadata``, ``quorum-state`` and
               ``server.properties``.
batch          Record batches of magic 2: header fields, and the columns that hold many batches or
               records.
legacy         Messages of magic 0 and 1, alone or compressed into the value of a wrapper message.
records        Records of batches of any magic, decoded many at a time into reused memory.
record_digest  A digest of records that does not depend on how they are batched or compressed.
lines/         Values as text and JSON lines.
index          The offset index, the time index and the transaction index of a segment.
encoding       Encoding of records as batches of magic 2, and the conversion of old messages to
               them.
manifest/      Manifests: what log directories hold, without the records.
"""
