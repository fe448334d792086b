"""The frame of a manifest: the header, the sections, and the trailer that leads to the contents.

Spec: kdump-manifest-format(5), section 1.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

from xxhash import xxh3_64_intdigest

from kdump.errors import DecodeError, LimitError
from kdump.format.codecs import Codec, compress, decompress_frame

MAGIC: Final = b"\x89KDM\r\n\x1a\n"
VERSION: Final = 1
_END: Final = b"KDMend\r\n"
_HEADER: Final = struct.Struct(">8sHH")
_SECTION: Final = struct.Struct(">BBII")
_TRAILER: Final = struct.Struct(">QQ8s")
_CHECKSUM: Final = struct.Struct(">Q")
_HALF: Final = struct.Struct(">I")

HEADER_BYTES: Final = _HEADER.size + _HALF.size
SECTION_BYTES: Final = _SECTION.size + _CHECKSUM.size
TRAILER_BYTES: Final = _TRAILER.size + _CHECKSUM.size

#: The most bytes of a payload in the file.
PAYLOAD_BYTES: Final = 64 << 20


class SectionKind(IntEnum):
    """The kinds of sections."""

    BLOCK = 1  # up to 8,192 batches of a log, with the damage between them
    LOG = 2  # the blocks of a log
    INDEX = 3  # an offset index or a time index, by the batches that its entries are about
    DATA = 4  # bytes of a file, at most 1 MiB
    PARTS = 5  # the DATA sections of a larger file
    DIRECTORY = 6  # the entries of a directory
    CONTENTS = 7  # the directories, and what was read when


#: The most bytes of a section's payload after decompression, by its kind.
_LIMITS: Final = {
    SectionKind.BLOCK: 16 << 20,
    SectionKind.LOG: 4 << 20,
    SectionKind.INDEX: PAYLOAD_BYTES,
    SectionKind.DATA: 1 << 20,
    SectionKind.PARTS: 1 << 20,
    SectionKind.DIRECTORY: 16 << 20,
    SectionKind.CONTENTS: 16 << 20,
}


def pack_header() -> bytes:
    """Return the header of a file."""
    fields = _HEADER.pack(MAGIC, VERSION, 0)
    return fields + _HALF.pack(xxh3_64_intdigest(fields) & 0xFFFFFFFF)


def check_header(data: bytes) -> None:
    """Raise DecodeError if ``data`` is not the header of a manifest of this version."""
    if len(data) < HEADER_BYTES or not data.startswith(MAGIC):
        raise DecodeError("expected a manifest, found a file that does not begin as one")
    if data[_HEADER.size :] != _HALF.pack(xxh3_64_intdigest(data[: _HEADER.size]) & 0xFFFFFFFF):
        raise DecodeError("header of a manifest: expected a matching checksum, found another")
    _, version, _ = _HEADER.unpack_from(data)
    if version != VERSION:
        raise DecodeError(
            f"expected a manifest of version {VERSION}, found version {version}: read it with a "
            "later release of kdump"
        )


def pack_section(kind: SectionKind, payload: bytes, *, compressed: bool = True) -> bytes:
    """Return a section. Raises LimitError for a payload that no reader takes."""
    if len(payload) > _LIMITS[kind]:
        raise LimitError(
            f"expected at most {_LIMITS[kind]} bytes in a section of a manifest "
            f"({kind.name.lower()}), found {len(payload)}"
        )
    coding, stored = 0, payload
    if compressed:
        block = compress(Codec.ZSTD, payload)
        if len(block) < len(payload):
            coding, stored = 1, block
    fields = _SECTION.pack(kind, coding, len(payload), len(stored))
    return fields + _CHECKSUM.pack(xxh3_64_intdigest(fields + stored)) + stored


def section_length(head: bytes) -> int:
    """Return the length of the section that begins with ``head``. Raises DecodeError."""
    if len(head) < SECTION_BYTES:
        raise DecodeError(
            f"expected a section of a manifest, found its end after {len(head)} bytes"
        )
    _, _, _, stored = _SECTION.unpack_from(head)
    if stored > PAYLOAD_BYTES:
        raise DecodeError(
            f"expected a section of at most {PAYLOAD_BYTES} bytes in a manifest, found {stored}"
        )
    return SECTION_BYTES + int(stored)


def unpack_section(kind: SectionKind, data: bytes | memoryview) -> bytes:
    """Return the payload of the section ``data``. Raises DecodeError."""
    view = memoryview(data)
    if len(view) < SECTION_BYTES:
        raise DecodeError(
            f"expected a section of a manifest, found its end after {len(view)} bytes"
        )
    found, coding, raw, stored = _SECTION.unpack_from(view)
    (checksum,) = _CHECKSUM.unpack_from(view, _SECTION.size)
    payload = bytes(view[SECTION_BYTES:])
    if len(payload) != stored:
        raise DecodeError(f"expected a section of {stored} bytes, found {len(payload)}")
    if xxh3_64_intdigest(bytes(view[: _SECTION.size]) + payload) != checksum:
        raise DecodeError(
            f"section of a manifest ({kind.name.lower()}): expected a matching checksum, found "
            "another: the manifest is damaged"
        )
    if found != kind:
        raise DecodeError(f"expected a section of kind {int(kind)}, found kind {found}")
    if raw > _LIMITS[kind] or coding > 1:
        raise DecodeError(
            f"section of a manifest ({kind.name.lower()}): expected at most {_LIMITS[kind]} bytes "
            f"in a known coding, found {raw} in coding {coding}"
        )
    if coding:
        try:
            payload = decompress_frame(payload, int(raw))
        except DecodeError as error:
            raise DecodeError(f"section of a manifest ({kind.name.lower()}): {error}") from error
    if len(payload) != raw:
        raise DecodeError(f"expected a payload of {raw} bytes, found {len(payload)}")
    return payload


def pack_trailer(position: int, sections: int) -> bytes:
    """Return the trailer of a file whose contents are at ``position``."""
    fields = _TRAILER.pack(position, sections, _END)
    return fields + _CHECKSUM.pack(xxh3_64_intdigest(fields))


def unpack_trailer(data: bytes) -> int:
    """Return the position of the contents. Raises DecodeError."""
    if len(data) != TRAILER_BYTES or data[16 : _TRAILER.size] != _END:
        raise DecodeError(
            "expected the trailer of a manifest at its end, found other bytes: it is cut"
        )
    position, _, _ = _TRAILER.unpack_from(data)
    (checksum,) = _CHECKSUM.unpack_from(data, _TRAILER.size)
    if xxh3_64_intdigest(data[: _TRAILER.size]) != checksum:
        raise DecodeError("trailer of a manifest: expected a matching checksum, found another")
    return int(position)
