"""Changes after which a metadata log ends before what it had."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Final

METADATA: Final = "__cluster_metadata-0"
LOG: Final = f"{METADATA}/{0:020}.log"


def vanished(data: Path) -> None:
    (data / LOG).unlink()


def vanished_with_indexes(data: Path) -> None:
    for path in (data / METADATA).glob(f"{0:020}.*"):
        path.unlink()


def shortened(batches: int) -> Callable[[Path], None]:
    """The log ends before its last ``batches`` batches."""

    def change(data: Path) -> None:
        content = (data / LOG).read_bytes()
        sizes = list[int]()
        while sum(sizes) < len(content):
            at = sum(sizes)
            sizes.append(12 + int.from_bytes(content[at + 8 : at + 12], "big"))
        (data / LOG).write_bytes(content[: [0, *accumulate(sizes)][-1 - batches]])

    return change


CHANGES: Final = {
    "log": vanished,
    "segment": vanished_with_indexes,
    "last batch": shortened(1),
    "60 batches": shortened(60),
}
