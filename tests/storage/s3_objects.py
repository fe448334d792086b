"""A server that speaks just enough of S3 to misbehave, or to have an object of any size.

Run as a program it serves on loopback, prints its port, and reads no file. Objects are by name:
``made-BYTES.log`` is made of sound batches as it is read, ``short.log`` ends in the middle of each
answer, ``silent.log`` is never answered, ``refused.log`` is forbidden. Imports nothing of kdump.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from support.forge import batch, record

_RECORDS = 100
_BATCH = batch(0, [record(b"x" * 600) for _ in range(_RECORDS)])
_SHORT_BYTES = 1 << 20


def made(position: int, length: int) -> bytes:
    """A part of a log of batches one behind the other; no checksum is over their offsets."""
    first, skipped = divmod(position, len(_BATCH))
    count = -(-(skipped + length) // len(_BATCH))
    rest = _BATCH[8:]
    parts = (
        (number * _RECORDS).to_bytes(8, "big") + rest for number in range(first, first + count)
    )
    return b"".join(parts)[skipped : skipped + length]


def whole(size: int) -> int:
    """The largest size up to ``size`` at which a batch ends."""
    return size // len(_BATCH) * len(_BATCH)


@contextmanager
def running() -> Iterator[int]:
    """Run the server as a program; yields its port."""
    with subprocess.Popen(
        [sys.executable, __file__],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def log_message(self, format: str, *args: object) -> None:
        return

    def _answer(self, *, body: bool) -> None:
        name = self.path.partition("?")[0].rpartition("/")[2]
        size = self._size(name)
        if name == "silent.log":
            time.sleep(600)
        if name == "refused.log" or size is None:
            self.send_response(403 if size is not None else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        start, end = 0, size - 1
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if asked:
            start, end = int(asked[1]), min(int(asked[2]), size - 1)
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(end - start + 1))
        self.send_header("ETag", '"one"')
        self.send_header("Last-Modified", "Sun, 22 Nov 2026 10:00:00 GMT")
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{end}/{size}")
        self.end_headers()
        if not body:
            return
        data = made(start, end - start + 1)
        if name == "short.log":
            self.wfile.write(data[: len(data) // 2])
            self.close_connection = True
            return
        self.wfile.write(data)

    def _size(self, name: str) -> int | None:
        sized = re.fullmatch(r"made-(\d+)\.log", name)
        if sized:
            return whole(int(sized[1]))
        return _SHORT_BYTES if name in ("short.log", "silent.log", "refused.log") else None


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()
