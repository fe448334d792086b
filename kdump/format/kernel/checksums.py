"""The checksums of small batches: the tables of CRC-32C and CRC-32, and the loop over bytes.

The build pastes it, like the prelude, into the modules that use it: the others build no tables.

Spec: ``Checksums``, ``Crc32C`` (reflected polynomials, sixteen bytes a step).
It must never allocate once the tables are there.
"""

from __future__ import annotations

from array import array

try:
    import cython
except ImportError:
    from kdump.format import nocython as cython

from kdump.format.kernel.prelude import (
    MAX_32,
)


def crc_table(polynomial: int) -> array[int]:
    """Return sixteen tables of 256 entries, flat, for 16 bytes a step (reflected polynomial)."""
    table = array("I", bytes(4 * 16 * 256))
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (polynomial if value & 1 else 0)
        table[byte] = value
    for slot in range(1, 16):
        for byte in range(256):
            before = table[(slot - 1) * 256 + byte]
            table[slot * 256 + byte] = (before >> 8) ^ table[before & 255]
    return table


CRC32C_TABLE = crc_table(0x82F63B78)
CRC32_TABLE = crc_table(0xEDB88320)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def crc(
    data: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    table: cython.const[cython.uint][::1],
) -> cython.longlong:
    """Return the checksum of ``data[start:stop]`` by one of the two tables."""
    value: cython.uint = MAX_32
    p: cython.Py_ssize_t = start
    low: cython.uint
    top: cython.uint  # shifted as a signed number it would overflow
    while p + 16 <= stop:
        top = data[p + 3]
        low = value ^ (data[p] | data[p + 1] << 8 | data[p + 2] << 16 | top << 24)
        value = (
            table[3840 + (low & 255)]
            ^ table[3584 + ((low >> 8) & 255)]
            ^ table[3328 + ((low >> 16) & 255)]
            ^ table[3072 + (low >> 24)]
            ^ table[2816 + data[p + 4]]
            ^ table[2560 + data[p + 5]]
            ^ table[2304 + data[p + 6]]
            ^ table[2048 + data[p + 7]]
            ^ table[1792 + data[p + 8]]
            ^ table[1536 + data[p + 9]]
            ^ table[1280 + data[p + 10]]
            ^ table[1024 + data[p + 11]]
            ^ table[768 + data[p + 12]]
            ^ table[512 + data[p + 13]]
            ^ table[256 + data[p + 14]]
            ^ table[data[p + 15]]
        )
        p += 16
    if p + 8 <= stop:
        top = data[p + 3]
        low = value ^ (data[p] | data[p + 1] << 8 | data[p + 2] << 16 | top << 24)
        value = (
            table[1792 + (low & 255)]
            ^ table[1536 + ((low >> 8) & 255)]
            ^ table[1280 + ((low >> 16) & 255)]
            ^ table[1024 + (low >> 24)]
            ^ table[768 + data[p + 4]]
            ^ table[512 + data[p + 5]]
            ^ table[256 + data[p + 6]]
            ^ table[data[p + 7]]
        )
        p += 8
    while p < stop:
        value = (value >> 8) ^ table[(value ^ data[p]) & 255]
        p += 1
    return value ^ MAX_32
