"""``driver.py RECORD ARGV...``: runs kdump, and writes which calls ``disk.SYSTEM`` made to RECORD.

A line a call: its method and its paths, in JSON. In a file of its own, because strace runs it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import kdump.cli.main
from kdump.repair.transaction import disk
from support.crashing.seam import Call, Watched


def main() -> int:
    record = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)

    def around(call: Call, make: Callable[..., Any]) -> Any:
        if call.changes:
            os.write(record, json.dumps([call.method, call.paths]).encode() + b"\n")
        return make(*call.arguments)

    disk.SYSTEM = Watched(around)
    return kdump.cli.main.main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
