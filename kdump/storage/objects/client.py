"""The child processes that talk to object stores, and the requests to them.

pyarrow starts threads on import, and its client for S3 does not survive a fork. A child process
holds it, so that the processes that send requests can fork workers or be workers. A request that
times out ends with its child. A second child does the writes: the end of the child that reads would
lose unfinished writes.

Spec: ``pyarrow.fs``.
"""

from __future__ import annotations

import errno
import os
import pickle
import signal
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

from kdump.storage import workers
from kdump.values import frozen

if TYPE_CHECKING:
    from kdump.storage.objects.address import RemotePath

#: The longest wait for an answer; the client of the store times out before that.
_ANSWER_SECONDS: Final = 120.0
#: After so many requests in a row that did not reach a store, requests to it fail at once for a
#: while: otherwise each of thousands of files would wait for a timeout.
_FAILURES_BEFORE_PAUSE: Final = 2
_PAUSE_SECONDS: Final = 30.0
#: Whether the payload is raw bytes (otherwise a pickle), and its length.
_HEADER: Final = struct.Struct("=?Q")


@frozen
class Status:
    """The status of an object, or of a prefix with objects below it (``directory``).

    ``version`` changes with the content; it is empty where the store has no versions.
    """

    directory: bool
    size: int = 0
    mtime_ns: int = 0
    version: str = ""


@frozen
class Listed:
    """A name in a listing."""

    name: str
    status: Status


@dataclass(slots=True)
class _Child:
    pid: int
    channel: socket.socket


@dataclass(slots=True)
class _Outage:
    """How many requests in a row did not reach a store, the time and the error of the last one."""

    count: int = 0
    since: float = 0.0
    text: str = ""


#: The duty of a child, as the error about its death names it.
READS: Final = "reads from"
WRITES: Final = "writes to"

_children: dict[str, _Child] = {}
_outages: dict[str, _Outage] = {}


def ask(
    path: RemotePath,
    operation: str | Callable[..., Any],
    *arguments: object,
    into: memoryview | None = None,
) -> Any:
    """Have a child do an ``operation`` on ``path``, and return its answer.

    The operation is the name of a method of ``Stores``, or a function at the top of a module, which
    may write and whose first argument is the ``Stores``. An answer of bytes is written ``into``
    memory, and its length is returned. Raises OSError: ENOENT if the object does not exist, ESTALE
    if it was replaced, ETIMEDOUT without an answer.
    """
    outage = _outages.setdefault(str(path.store), _Outage())
    if outage.count >= _FAILURES_BEFORE_PAUSE and time.monotonic() < outage.since + _PAUSE_SECONDS:
        raise OSError(errno.EHOSTUNREACH, f"{outage.text} (not asked again for a while)", str(path))
    does = READS if isinstance(operation, str) else WRITES
    try:
        answer = _answer(does, (path, operation, *arguments), into)
    except BaseException:  # Ctrl-C too: the next request would receive this answer
        _end_child(does)
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


def _answer(does: str, request: tuple[Any, ...], into: memoryview | None) -> Any:
    """Send ``request`` to the child that ``does`` it, and return its answer, an OSError if any."""
    if does not in _children:
        _children[does] = _start()
    channel = _children[does].channel
    until = time.monotonic() + _ANSWER_SECONDS
    data = pickle.dumps(request)
    try:
        channel.settimeout(_ANSWER_SECONDS)
        channel.sendall(_HEADER.pack(False, len(data)) + data)
        raw, length = _HEADER.unpack(_receive(channel, bytearray(_HEADER.size), until))
        if raw and into is not None:
            return len(_receive(channel, into[:length], until))
        return pickle.loads(_receive(channel, bytearray(length), until))
    except TimeoutError:
        _end_child(does)
        text = f"no answer within {_ANSWER_SECONDS:.0f} seconds"
        return OSError(errno.ETIMEDOUT, text)
    except (EOFError, ConnectionError):
        _end_child(does)
        return OSError(errno.EIO, f"the process that {does} the store died")


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


def _end_child(does: str) -> None:
    child = _children.pop(does, None)
    if child is not None:
        child.channel.close()
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
        with suppress(ChildProcessError):  # the process was already waited for
            os.waitpid(child.pid, 0)


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
    from kdump.storage.objects.server import Stores

    stores = Stores()
    channel.settimeout(None)
    while True:
        _, length = _HEADER.unpack(_receive(channel, bytearray(_HEADER.size), None))
        path, operation, *arguments = pickle.loads(_receive(channel, bytearray(length), None))
        answer: object
        try:
            if isinstance(operation, str):
                answer = getattr(stores, operation)(path, *arguments)
            else:
                answer = operation(stores, path, *arguments)
        except Exception as error:  # noqa: BLE001 - pyarrow raises many kinds; each is an answer
            answer = _os_error(error)
        if isinstance(answer, memoryview):
            channel.sendall(_HEADER.pack(True, len(answer)))
            channel.sendall(answer)
        else:
            data = pickle.dumps(answer)
            channel.sendall(_HEADER.pack(False, len(data)) + data)


def _os_error(error: Exception) -> OSError:
    text = " ".join(str(error).split())
    if isinstance(error, FileNotFoundError):
        return OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    if isinstance(error, OSError) and error.errno == errno.ESTALE:
        return OSError(errno.ESTALE, text)
    if "NETWORK_CONNECTION" in text:
        return OSError(errno.EHOSTUNREACH, text)
    if "ACCESS_DENIED" in text or "HTTP status 403" in text:
        return OSError(errno.EACCES, text)
    return OSError(errno.EIO, text or type(error).__name__)
