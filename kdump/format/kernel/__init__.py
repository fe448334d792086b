"""The loops that touch every byte or row: Python that runs as it is, and that the installation
compiles with Cython.

prelude    What every module of the kernel uses: rows, places, bits, readers of bytes, writers of
           bytes.
checksums  The checksums of small batches: the tables of CRC-32C and CRC-32, and the loop over
           bytes.
headers    The hot loops over batch headers: reading, checksums of small batches, sums, and the
           search.
records    The hot loops over records of any magic: decoding, and whether they match their batch's
           header.
digest     The hot loops of other forms: records and headers for digests, headers for manifests.
recovery   Recovery over batch headers: the rule that adds an index entry, and where recovery
           stops. Also the loader's pass over a log that it does not check.
entries    The hot loops over index entries: whether they rise, and what batches say of their
           promises.
producers  What the loops over producers share: the rows of events and runs, their kinds, and the
           slots.
events     The hot loop that finds the events of a segment: producers, transactions and leader
           epochs.
replay     The hot loop that replays the events of a partition's segments, as a broker's recovery
           does.
compacted  The hot loops over records of compacted topics: the last of each key, and commits of
           offsets.
columns    Columns of records and of their headers, out of the rows that the kernel filled.
select     The hot loops over rows that the kernel filled: which of them are asked for, and their
           sums.
ranges     The hot loops over offsets: rows within ranges, and the ranges that rows form.
lines      Columns of batches and records to lines of text or JSON: the plain ones, in bulk.
encode     The hot loops that write: records of rows as those of a batch of magic 2.
"""
