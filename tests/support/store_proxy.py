"""A proxy in front of a store that counts requests, and keeps back, cuts short or denies some."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass
class Proxy:
    """``silent``, ``short`` and ``gone`` are ends of the names of objects.

    Of a silent one the bytes never come, of a short one half of them; what is gone is still listed,
    and nobody has the right to what is denied. ``asked`` are the requests so far: HEAD, GET or
    LIST, and the object or prefix; ``most_at_once`` were being answered. Each answer takes
    ``slow_seconds``. The next ``busy`` answers are that the store has too much to do. Before the
    first bytes of an object in ``changes`` are read, it is written anew.
    """

    port: int
    asked: list[tuple[str, str]] = field(default_factory=list)
    slow_seconds: float = 0
    busy: int = 0
    most_at_once: int = 0
    ended: threading.Event = field(default_factory=threading.Event)
    silent: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    changes: dict[str, Callable[[], None]] = field(default_factory=dict)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that gives up, or is killed, resets its connection."""


@contextmanager
def before(store_port: int) -> Iterator[Proxy]:
    """Run one in front of the store that listens there."""
    lock = threading.Lock()
    waiting: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            name = self.path.partition("?")[0]
            if name.endswith(proxy.silent):
                proxy.ended.wait()
                self.close_connection = True
                return
            self._answer(body=True, short=name.endswith(proxy.short))

        def _refuse(self, status: int, code: str, body: bool) -> None:
            data = f"<Error><Code>{code}</Code><Message>No.</Message></Error>".encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data if body else b"")

        def _note(self) -> None:
            """Note the request, and wait."""
            split = urlsplit(self.path)
            prefix = parse_qs(split.query).get("prefix")
            _, _, key = unquote(split.path).lstrip("/").partition("/")
            kind = self.command if prefix is None else "LIST"
            with lock:
                proxy.asked.append((kind, key if prefix is None else prefix[0]))
                waiting.append(kind)
                proxy.most_at_once = max(proxy.most_at_once, len(waiting))
            time.sleep(proxy.slow_seconds)
            change = proxy.changes.pop(key, None) if kind == "GET" else None
            if change is not None:
                change()
            with lock:
                waiting.pop()

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_PUT(self) -> None:
            self._answer(body=True)

        do_POST = do_DELETE = do_PUT

        def log_message(self, format: str, *args: object) -> None:
            return

        def _answer(self, *, body: bool, short: bool = False) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self._note()
            if proxy.busy > 0:
                proxy.busy -= 1
                self._refuse(503, "SlowDown", body)
                return
            if self.path.partition("?")[0].endswith(proxy.denied):
                self._refuse(403, "AccessDenied", body)
                return
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
