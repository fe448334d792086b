"""Makes fixtures anew: ``python tests/brokers [VERSION/STATE...]``, without names all of them."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from brokers.fixtures import make
from brokers.jars import missing
from brokers.listing import write
from support.fixtures_loader import FULL_SIZES, ROOT, full_sizes

KNOWN = (
    "0.8.2.2/clean",
    "0.10.2.2/clean",
    "0.10.2.2/killed",
    "1.1.1/clean",
    "2.8.2/clean",
    "2.8.2/killed",
    "3.9.1/clean",
    "3.9.1/killed",
    "4.3.1/clean",
    "4.3.1/killed",
    "4.3.1/replicas",
    "4.3.1/tiered",
    "4.4.0/clean",
    "4.4.0/killed",
    "4.4.0/replicas",
)


def main(wanted: list[str]) -> None:
    """Make the fixtures ``wanted``, or all, and list all files below ``fixtures/``."""
    unknown = set(wanted) - set(KNOWN)
    if unknown:
        sys.exit(f"expected names of {', '.join(KNOWN)}, found {', '.join(sorted(unknown))}")
    reason = missing()
    if reason is not None:
        sys.exit(f"brokers cannot run here: {reason}")
    sizes = full_sizes() if FULL_SIZES.exists() else {}
    names = wanted or KNOWN
    # Two at a time: each spends half of its time on waiting until a broker rests.
    with ThreadPoolExecutor(2) as pool:
        made = tuple(pool.map(_make, names))
    for name, trimmed in zip(names, made, strict=True):
        prefix = f"brokers/{name}/"
        others = {path: size for path, size in sizes.items() if not path.startswith(prefix)}
        sizes = others | trimmed
    write(sizes)


def _make(name: str) -> dict[str, int]:
    print(f"making {name}", file=sys.stderr)
    version, state = name.split("/")
    return make(version, state, ROOT)


if __name__ == "__main__":
    main(sys.argv[1:])
