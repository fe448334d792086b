"""The child processes that talk to object stores, and the requests to them.

pyarrow starts threads as soon as it is imported, and its client for S3 does not survive a fork.
With a child for it the processes that ask can fork workers, or be some; an answer that does not
come is given up together with the child. Another one writes: what it has not finished would go too.

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

if TYPE_CHECKING:
    from kdump.storage.objects.address import RemotePath

#: After so long an answer is not waited for any more; the client gives up before that itself.
_ANSWER_SECONDS: Final = 120.0
#: A store that so many questions in a row did not reach is not asked for a while: each of thousands
#: of files would wait for it.
_UNREACHED: Final = 2
_REST_SECONDS: Final = 30.0
_HEADER: Final = struct.Struct("=?Q")  # whether bytes follow, and how many; else it is a pickle


@dataclass(frozen=True, slots=True)
class Status:
    """What a store says of an object, or that there are some below.

    ``version`` changes with the content, empty where the store has no such thing.
    """

    directory: bool
    size: int = 0
    mtime_ns: int = 0
    version: str = ""


@dataclass(frozen=True, slots=True)
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
    """How often a store was not reached in a row, when last, and what was said then."""

    count: int = 0
    since: float = 0.0
    text: str = ""


#: What a child is for, as its death is told.
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
    """Have a child do an ``operation`` of ``Stores`` on ``path``, and return its answer.

    A function at the top of a module, which may write, gets the ``Stores`` first.
    Of bytes the count is returned, and they are put ``into`` memory. Raises OSError: ENOENT for
    what is not there, ESTALE for what is another by now, ETIMEDOUT where no answer came.
    """
    outage = _outages.setdefault(str(path.store), _Outage())
    if outage.count >= _UNREACHED and time.monotonic() < outage.since + _REST_SECONDS:
        raise OSError(errno.EHOSTUNREACH, f"{outage.text} (not asked again for a while)", str(path))
    does = READS if isinstance(operation, str) else WRITES
    try:
        answer = _answer(does, (path, operation, *arguments), into)
    except BaseException:  # Ctrl-C too: what was asked for would be taken for the next answer
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
    """Fill ``memory``. Raises TimeoutError, EOFError."""
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
    ours, theirs = socket.socketpair()
    with workers.signals_held_back() as before:
        pid = os.fork()
        if pid == 0:
            _be_child(theirs, parent, before)
    theirs.close()
    return _Child(pid, ours)


def _end_child(does: str) -> None:
    child = _children.pop(does, None)
    if child is not None:
        child.channel.close()
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
        with suppress(ChildProcessError):  # somebody else waited for it
            os.waitpid(child.pid, 0)


def _forget_children() -> None:
    """They answer the parent; who was just forked starts some of his own."""
    while _children:
        _children.popitem()[1].channel.close()


os.register_at_fork(after_in_child=_forget_children)


def _be_child(theirs: socket.socket, parent: int, mask: set[signal.Signals | int]) -> NoReturn:
    status = 1
    try:
        # Who holds the end of another process's pipe keeps that one waiting for its end.
        os.closerange(3, theirs.fileno())
        os.closerange(theirs.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
        if workers.initialise_child(parent, mask):
            _serve(theirs)
        status = 0
    except (OSError, EOFError):  # the one who asks is gone
        status = 0
    finally:
        os._exit(status)


def _serve(channel: socket.socket) -> None:
    """Answer one question after the other, until nobody is there to ask."""
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
        except Exception as error:  # noqa: BLE001 - pyarrow has many kinds, and all are an answer
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
