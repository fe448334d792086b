"""The child processes that talk to object stores, and the requests to them.

The clients of stores have connections, and pyarrow starts threads on import: neither survives a
fork. A child process holds them, so that the processes that send requests can fork workers or be
workers. It works on several requests at a time: an answer may be collected later. A request that
times out ends with its child. A second child does the writes: the end of the child that reads would
lose unfinished writes.
"""

from __future__ import annotations

import errno
import os
import pickle
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from kdump.storage import workers
from kdump.storage.objects.address import Address
from kdump.storage.objects.status import REQUESTS

#: The longest wait for an answer; the client of the store times out before that.
_ANSWER_SECONDS: Final = 120.0
#: After so many requests in a row that did not reach a store, requests to it fail at once for a
#: while: otherwise each of thousands of files would wait for a timeout.
_FAILURES_BEFORE_PAUSE: Final = 2
_PAUSE_SECONDS: Final = 30.0
#: The number of the request, whether the payload is raw bytes (otherwise a pickle), and its length.
_HEADER: Final = struct.Struct("=Q?Q")


@dataclass(slots=True)
class _Child:
    """A child, how many requests it was sent, and the answers that came before their turn."""

    pid: int
    channel: socket.socket
    sent: int = 0
    answers: dict[int, Any] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Ticket:
    """A request whose answer is collected later.

    ``child`` is the one that has it, None if it was not sent: it is then sent as it is collected.
    """

    path: Address
    operation: str | Callable[..., Any]
    arguments: tuple[object, ...]
    child: _Child | None = None
    number: int = 0

    @property
    def duty(self) -> str:
        """The duty of the child that it is for."""
        return READS if isinstance(self.operation, str) else WRITES


@dataclass(slots=True)
class _Outage:
    """How many requests in a row did not reach a store, the time and the error of the last one."""

    count: int = 0
    since: float = 0.0
    text: str = ""


#: The duty of a child, as the error about its death names it.
READS: Final = "reads from"
WRITES: Final = "writes to"

#: How many requests to write there were.
_writes = 0
_children: dict[str, _Child] = {}
_outages: dict[str, _Outage] = {}


def ask(path: Address, operation: str | Callable[..., Any], *arguments: object) -> Any:
    """Have a child do an ``operation`` on ``path``, and return its answer.

    The operation is the name of a method of ``Stores``, or a function at the top of a module, which
    may write and whose first argument is the ``Stores``. Raises OSError: ENOENT if the object does
    not exist, ESTALE if it was replaced, ETIMEDOUT without an answer.
    """
    return collect(Ticket(path, operation, arguments))


def send(path: Address, operation: str, *arguments: object) -> Ticket:
    """Send a request as ``ask`` does, without waiting for the answer. It raises no error."""
    ticket = Ticket(path, operation, arguments)
    if not _is_paused(_outage(path)):
        try:
            _post(ticket)
        except BaseException as error:  # Ctrl-C too: a part of it may have been sent
            _end_child(ticket.duty)
            if not isinstance(error, OSError):
                raise
    return ticket


def collect(ticket: Ticket, into: memoryview | None = None) -> Any:
    """Return the answer to a request as ``ask`` does, once. Raises OSError.

    An answer of bytes is written ``into`` memory, and its length is returned.
    """
    outage = _outage(ticket.path)
    if ticket.child is None or ticket.child is not _children.get(ticket.duty):
        ticket.child = None
        if _is_paused(outage):
            text = f"{outage.text} (not asked again for a while)"
            raise OSError(errno.EHOSTUNREACH, text, str(ticket.path))
    try:
        answer = _answer(ticket, into)
    except BaseException:  # Ctrl-C too: a part of a message may have been sent or received
        _end_child(ticket.duty)
        raise
    if not isinstance(answer, OSError):
        outage.count = 0
        return answer
    if answer.errno in (errno.EHOSTUNREACH, errno.ETIMEDOUT):
        outage.count, outage.since = outage.count + 1, time.monotonic()
        outage.text = answer.strerror or ""
    else:
        outage.count = 0
    raise answer


def count_writes() -> int:
    """Return how many requests to write this process has sent."""
    return _writes


def drop(ticket: Ticket) -> None:
    """Give up the answer to a request."""
    child = ticket.child
    if child is not None and child.answers.pop(ticket.number, None) is None:
        child.dropped.add(ticket.number)


def _outage(path: Address) -> _Outage:
    return _outages.setdefault(str(path.store), _Outage())


def _is_paused(outage: _Outage) -> bool:
    recent = time.monotonic() < outage.since + _PAUSE_SECONDS
    return recent and outage.count >= _FAILURES_BEFORE_PAUSE


def _post(ticket: Ticket) -> None:
    """Send a request to its child. After an exception the child must be ended. Raises OSError."""
    global _writes
    duty = ticket.duty
    _writes += duty == WRITES
    if duty not in _children:
        _children[duty] = _start()
    child = _children[duty]
    child.sent += 1
    data = pickle.dumps((ticket.path, ticket.operation, *ticket.arguments))
    child.channel.settimeout(_ANSWER_SECONDS)
    child.channel.sendall(_HEADER.pack(child.sent, False, len(data)) + data)
    ticket.child, ticket.number = child, child.sent


def _answer(ticket: Ticket, into: memoryview | None) -> Any:
    """Return the answer to a request, an OSError if any; send it if it was not sent."""
    duty = ticket.duty
    until = time.monotonic() + _ANSWER_SECONDS
    try:
        if ticket.child is None:
            _post(ticket)
        assert ticket.child is not None
        return _await(ticket.child, ticket.number, into, until)
    except TimeoutError:
        _end_child(duty)
        text = f"no answer within {_ANSWER_SECONDS:.0f} seconds"
        return OSError(errno.ETIMEDOUT, text)
    except (EOFError, ConnectionError):
        died = _end_child(duty)
        cause = f" of {died.label}" if died is not None else ""
        return OSError(errno.EIO, f"the process that {duty} the store died{cause}")


def _await(child: _Child, number: int, into: memoryview | None, until: float) -> Any:
    """Receive answers up to that with the ``number``; raises TimeoutError, EOFError."""
    while number not in child.answers:
        header = _receive(child.channel, bytearray(_HEADER.size), until)
        found, raw, length = _HEADER.unpack(header)
        if raw and found == number and into is not None:
            return len(_receive(child.channel, into[:length], until))
        data = _receive(child.channel, bytearray(length), until)
        if found in child.dropped:
            child.dropped.remove(found)
        else:
            child.answers[found] = data if raw else pickle.loads(data)
    answer = child.answers.pop(number)
    if into is None or not isinstance(answer, bytearray):
        return answer
    into[: len(answer)] = answer
    return len(answer)


def _receive(
    channel: socket.socket, memory: bytearray | memoryview, until: float | None
) -> bytearray | memoryview:
    """Fill ``memory`` by the monotonic time ``until``, and return it.

    Raises TimeoutError, EOFError.
    """
    rest = memoryview(memory)
    while rest:
        if until is not None:
            channel.settimeout(max(until - time.monotonic(), 0.001))
        count = channel.recv_into(rest)
        if not count:
            raise EOFError
        rest = rest[count:]
    return memory


def _start() -> _Child:
    parent = os.getpid()
    parent_end, child_end = socket.socketpair()
    with workers.block_signals() as previous_mask:
        pid = os.fork()
        if pid == 0:
            _run_child(child_end, parent, previous_mask)
    child_end.close()
    return _Child(pid, parent_end)


def _end_child(duty: str) -> workers.WorkerDied | None:
    """End a child, and return what killed it: SIGKILL if it still ran; None if it had exited."""
    child = _children.pop(duty, None)
    if child is None:
        return None
    child.channel.close()
    with suppress(ProcessLookupError):
        os.kill(child.pid, signal.SIGKILL)  # without effect on a child that is dead
    try:
        status = os.waitpid(child.pid, 0)[1]
    except ChildProcessError:  # the process was already waited for
        return None
    return workers.WorkerDied(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else None


def _forget_children() -> None:
    """Close the channels of children that answer the parent of a process just forked.

    The process starts children of its own.
    """
    while _children:
        _children.popitem()[1].channel.close()


os.register_at_fork(after_in_child=_forget_children)


def _run_child(channel: socket.socket, parent: int, mask: set[signal.Signals | int]) -> NoReturn:
    status = 1
    try:
        # An inherited end of a pipe would keep the processes at its other end waiting.
        os.closerange(3, channel.fileno())
        os.closerange(channel.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
        if workers.initialise_child(parent, mask):
            _serve(channel)
        status = 0
    except (OSError, EOFError):  # the parent ended
        status = 0
    finally:
        os._exit(status)


def _serve(channel: socket.socket) -> None:
    """Answer one request after another. Raises OSError, EOFError where the parent has ended."""
    from concurrent.futures import ThreadPoolExecutor

    from kdump.storage.objects.server import Stores

    stores, sending = Stores(), threading.Lock()

    def serve(number: int, path: Address, operation: Any, arguments: tuple[Any, ...]) -> None:
        answer: object
        try:
            if isinstance(operation, str):
                answer = getattr(stores, operation)(path, *arguments)
            else:
                answer = operation(stores, path, *arguments)
        except Exception as error:  # noqa: BLE001 - libraries raise many kinds; each is an answer
            answer = _os_error(error)
        raw = isinstance(answer, memoryview)
        data = answer if isinstance(answer, memoryview) else pickle.dumps(answer)
        with sending, suppress(OSError):  # the parent ended: the loop below ends too
            channel.sendall(_HEADER.pack(number, raw, len(data)))
            channel.sendall(data)

    channel.settimeout(None)
    threads = ThreadPoolExecutor(REQUESTS)  # the end of the process does not wait for them
    while True:
        number, _, length = _HEADER.unpack(_receive(channel, bytearray(_HEADER.size), None))
        request = pickle.loads(_receive(channel, bytearray(length), None))
        path, operation, *arguments = request
        threads.submit(serve, number, path, operation, tuple(arguments))


def _os_error(error: Exception) -> OSError:
    text = " ".join(str(error).split())
    if isinstance(error, OSError) and error.errno is not None and error.strerror:
        return OSError(error.errno, error.strerror)
    if isinstance(error, FileNotFoundError):
        return OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    if isinstance(error, ImportError):
        return OSError(errno.EIO, f"expected {error.name} in this Python, found none: install it")
    if "NETWORK_CONNECTION" in text:
        return OSError(errno.EHOSTUNREACH, text)
    if "ACCESS_DENIED" in text or "HTTP status 403" in text:
        return OSError(errno.EACCES, text)
    return OSError(errno.EIO, text or type(error).__name__)
