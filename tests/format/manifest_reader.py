"""A reader of manifests, written from kdump-manifest-format(5) alone, without kdump."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import xxhash
import zstandard

BLOCK, LOG, INDEX, DATA, PARTS, DIRECTORY, CONTENTS = range(1, 8)
NONE, AS_DATA, AS_PARTS, AS_LOG, AS_INDEX = range(5)
#: The columns of a block, in their order.
COLUMNS = (
    "size", "base_offset", "last_offset", "leader_epoch", "magic", "crc", "attributes",
    "base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "count",
)  # fmt: skip

Batch = dict[str, int]


@dataclass
class Entry:
    """An entry of a directory: a file, and where its content is."""

    name: bytes
    content: int
    size: int
    section: int


@dataclass
class Log:
    """A log: its batches with their positions, and its damages as positions and sizes."""

    size: int
    digest: bytes
    batches: list[Batch] = field(default_factory=list)
    damages: list[tuple[int, int, int]] = field(default_factory=list)  # position, size, reason
    block_digests: list[tuple[int, int, bytes]] = field(default_factory=list)


class Fields:
    """Fields of a payload, one after the other."""

    def __init__(self, payload: bytes) -> None:
        self.payload, self.at = payload, 0

    def take(self, size: int) -> bytes:
        self.at += size
        assert self.at <= len(self.payload)
        return self.payload[self.at - size : self.at]

    def get(self, form: str) -> Any:
        return struct.unpack(f">{form}", self.take(struct.calcsize(f">{form}")))[0]

    def text(self) -> bytes:
        return self.take(self.get("H"))

    def column(self, n: int) -> list[int]:
        numbers = [0] * n
        for k in range(self.get("B")):
            coding = self.get("B")
            if coding == 0:
                plane = self.take(1) * n
            elif coding == 1:
                plane = self.take(n)
            else:
                plane = unzstd(self.take(self.get("I")))
            for i, byte in enumerate(plane):
                numbers[i] |= byte << 8 * k
        return [number >> 1 ^ -(number & 1) for number in numbers]


def unzstd(frame: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(frame)


class Manifest:
    """The manifest of these bytes: its directories by path, with their entries."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        assert data[:12] == bytes.fromhex("894B444D0D0A1A0A00010000")
        assert data[12:16] == struct.pack(">I", xxhash.xxh3_64_intdigest(data[:12]) & 0xFFFFFFFF)
        assert data[-16:-8] == bytes.fromhex("4B444D656E640D0A")
        assert data[-8:] == xxhash.xxh3_64_digest(data[-32:-8])
        position, self.sections = struct.unpack(">QQ", data[-32:-16])
        contents = Fields(self.payload(position, CONTENTS))
        self.begun, self.finished = contents.get("q"), contents.get("q")
        self.flags, self.made_by = contents.get("B"), contents.text()
        self.origin = contents.text()
        self.roots = [
            (contents.text(), contents.get("B"), contents.text()) for _ in range(contents.get("I"))
        ]
        self.directories = {}
        for _ in range(contents.get("I")):
            path = contents.text()
            contents.take(3 * 4 + 8 + 8 + 8)
            section, error = contents.get("Q"), contents.text()
            assert not error
            self.directories[path] = self.entries(section) if section else []
        assert contents.at == len(contents.payload)

    def payload(self, position: int, kind: int) -> bytes:
        found, coding, raw, length = struct.unpack_from(">BBII", self.data, position)
        stored = self.data[position + 18 : position + 18 + length]
        sum_ = xxhash.xxh3_64_digest(self.data[position : position + 10] + stored)
        assert (found, sum_) == (kind, self.data[position + 10 : position + 18])
        payload = unzstd(stored) if coding else stored
        assert len(payload) == raw
        return payload

    def all_sections(self) -> int:
        """The number of sections in the file, one behind the other from the header to the end."""
        position, number = 16, 0
        while position < len(self.data) - 32:
            position += 18 + int(struct.unpack_from(">I", self.data, position + 6)[0])
            number += 1
        assert position == len(self.data) - 32
        return number

    def entries(self, section: int) -> list[Entry]:
        fields = Fields(self.payload(section, DIRECTORY))
        entries = []
        for _ in range(fields.get("I")):
            name, content = fields.text(), fields.get("B")
            fields.take(3 * 4 + 8)
            size, _, place, error = fields.get("q"), fields.get("q"), fields.get("Q"), fields.text()
            assert not error
            entries.append(Entry(name, content, size, place))
        return entries

    def file(self, entry: Entry) -> bytes:
        """The bytes of a file that is stored as DATA or PARTS, or of an index."""
        if entry.content == AS_DATA:
            return self.payload(entry.section, DATA)
        if entry.content == AS_INDEX:
            return self.index(entry.section)
        assert entry.content == AS_PARTS
        places = self.payload(entry.section, PARTS)
        return b"".join(self.payload(place, DATA) for (place,) in struct.iter_unpack(">Q", places))

    def log(self, section: int) -> Log:
        fields = Fields(self.payload(section, LOG))
        size, _, digest = fields.get("q"), fields.get("B"), fields.take(16)
        log, position = Log(size, digest), 0
        for _ in range(fields.get("I")):
            end, count, place = fields.get("q"), fields.get("I"), fields.get("Q")
            log.block_digests.append((position, end, fields.take(16)))
            before = len(log.batches)
            assert self._block(place, position, log) == end
            assert len(log.batches) - before == count
            position = end
        assert position == size
        return log

    def _block(self, section: int, position: int, log: Log) -> int:
        """Add the batches and damages of a block that begins at ``position``; return its end."""
        fields = Fields(self.payload(section, BLOCK))
        n, damages = fields.get("I"), fields.get("H")
        columns = [fields.column(n) for _ in COLUMNS]
        rows = zip(*columns, strict=True)
        batches = self._batches([dict(zip(COLUMNS, row, strict=True)) for row in rows])
        length, coding, raw = fields.get("I"), fields.get("B"), fields.get("I")
        control = fields.take(length)
        assert len(unzstd(control) if coding else control) == raw
        first = 0
        for _ in range(damages):
            stop, reason = fields.get("H"), fields.get("B")
            fields.take(1)
            size = fields.get("q")
            fields.take(8 + 4 + 4)
            fields.text()
            position = self._place(batches[first:stop], position, log)
            log.damages.append((position, size, reason))
            first, position = stop, position + size
        wrappers = [each for each in batches if each["magic"] < 2 and each["attributes"] & 7]
        fields.column(len(wrappers))
        assert fields.at == len(fields.payload)
        return self._place(batches[first:], position, log)

    @staticmethod
    def _place(batches: list[Batch], position: int, log: Log) -> int:
        for batch in batches:
            log.batches.append({"position": position, **batch})
            position += batch["size"]
        return position

    @staticmethod
    def _batches(differences: list[Batch]) -> list[Batch]:
        batches: list[Batch] = []
        sequences: dict[int, tuple[int, int]] = {}
        before = {
            "last_offset": -1, "leader_epoch": 0, "magic": 2, "attributes": 0, "max_timestamp": 0
        }  # fmt: skip
        for each in differences:
            each["base_offset"] += before["last_offset"] + 1
            each["last_offset"] += each["base_offset"] + each["count"] - 1
            for name in ("leader_epoch", "magic", "attributes"):
                each[name] += before[name]
            each["crc"] %= 2**32
            each["base_timestamp"] += before["max_timestamp"]
            each["max_timestamp"] += each["base_timestamp"]
            producer = each["producer_id"]
            slot = (producer ^ producer >> 8 ^ producer >> 16) & 255
            known = sequences.get(slot, (None, 0))
            expected = -1 if producer < 0 else known[1] if known[0] == producer else 0
            each["base_sequence"] += expected
            if producer >= 0:
                last = each["base_sequence"] + each["last_offset"] - each["base_offset"]
                sequences[slot] = (producer, (last + 1) % 2**31)
            for name in (name for name in COLUMNS if name != "crc"):
                each[name] = (each[name] + 2**63) % 2**64 - 2**63
            batches.append(each)
            before = each
        return batches

    def index(self, section: int) -> bytes:
        fields = Fields(self.payload(section, INDEX))
        of_times, base_offset, place = fields.get("B"), fields.get("q"), fields.get("Q")
        n, zeros = fields.get("I"), fields.get("I")
        end = fields.text()
        rows, offsets = fields.column(n), fields.column(n)
        batches, row, entries = self.log(place).batches, 0, b""
        for step, offset in zip(rows, offsets, strict=True):
            row += step
            relative = offset + batches[row]["last_offset"] - base_offset
            if of_times:
                entries += struct.pack(">qi", batches[row]["max_timestamp"], relative)
            else:
                entries += struct.pack(">ii", relative, batches[row]["position"])
        data = entries + bytes(zeros)
        assert data.endswith(end)
        return data
