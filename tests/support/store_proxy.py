"""A proxy in front of a store that keeps back, cuts short or denies what it is told to."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Proxy:
    """``silent``, ``short`` and ``gone`` are ends of the names of objects.

    Of a silent one the bytes never come, of a short one half of them; what is gone is still listed.
    """

    port: int
    ended: threading.Event = field(default_factory=threading.Event)
    silent: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that gives up, or is killed, resets its connection."""


@contextmanager
def before(store_port: int) -> Iterator[Proxy]:
    """Run one in front of the store that listens there."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            name = self.path.partition("?")[0]
            if name.endswith(proxy.silent):
                proxy.ended.wait()
                self.close_connection = True
                return
            self._answer(body=True, short=name.endswith(proxy.short))

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_PUT(self) -> None:
            self._answer(body=True)

        do_POST = do_DELETE = do_PUT

        def log_message(self, format: str, *args: object) -> None:
            return

        def _answer(self, *, body: bool, short: bool = False) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path.partition("?")[0].endswith(proxy.gone):
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            store = http.client.HTTPConnection("127.0.0.1", store_port)
            store.request(self.command, self.path, sent, dict(self.headers))
            answer = store.getresponse()
            data = answer.read()
            store.close()
            self.send_response(answer.status)
            for key, value in answer.getheaders():
                if key.lower() not in ("connection", "date", "server", "transfer-encoding"):
                    self.send_header(key, value)
            if body and answer.getheader("Content-Length") is None:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if body:
                self.wfile.write(data[: len(data) // 2] if short else data)
            self.close_connection = short

    server = _Server(("127.0.0.1", 0), Handler)
    proxy = Proxy(server.server_port)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()
