"""Makes fixtures anew: ``python tests/brokers [VERSION/STATE...]``, without names all of them.

Spec: none.
Must never touch a fixture that it was not asked for, beyond listing its files again.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from fixtures_loader import README, ROOT, listing

from brokers.fixtures import STATES, make
from brokers.jars import missing
from brokers.listing import write

VERSIONS = ("3.9.1", "4.3.1")
KNOWN = tuple(f"{version}/{state}" for version in VERSIONS for state in STATES)


def main(wanted: list[str]) -> None:
    """Make the fixtures ``wanted``, or all, and list all files below ``fixtures/``."""
    unknown = set(wanted) - set(KNOWN)
    if unknown:
        sys.exit(f"expected names of {', '.join(KNOWN)}, found {', '.join(sorted(unknown))}")
    reason = missing()
    if reason is not None:
        sys.exit(f"brokers cannot run here: {reason}")
    rows = listing().values() if README.exists() else ()
    full_sizes = {row.path: row.full_bytes for row in rows if row.full_bytes > row.stored_bytes}
    for name in wanted or KNOWN:
        print(f"making {name}", file=sys.stderr)
        version, state = name.split("/")
        kept = {
            path: size
            for path, size in full_sizes.items()
            if not path.startswith(f"brokers/{name}/")
        }
        full_sizes = kept | make(version, state, ROOT)
    write(full_sizes)


if __name__ == "__main__":
    main(sys.argv[1:])
