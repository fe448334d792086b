"""Runs kdump in a forked child of this process: its exit code, and all that it printed.

JSON lines are held against the schemas.
"""

from __future__ import annotations

import io
import os
import pkgutil
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module

import kdump
import kdump.cli.main
from kdump.repair.transaction import disk
from kdump.storage import liveness
from support.crashing.seam import Around, Watched
from support.json_lines import check_lines

# Once here, instead of in every child; what runs on Spark repairs nothing.
for _module in pkgutil.walk_packages(kdump.__path__, "kdump."):
    if not _module.name.startswith("kdump.fleet."):
        import_module(_module.name)

#: Longer than any run here takes, also on a busy machine.
_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Run:
    """How a command ended: ``code`` as a shell has it, negative for a signal."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def last_line(self) -> str:
        lines = self.err.strip().splitlines()
        return lines[-1] if lines else ""

    def __str__(self) -> str:
        return f"kdump {' '.join(self.argv)}\nexit {self.code}\n{self.out}\n{self.err}"


def run(
    argv: Sequence[str],
    around: Around | None = None,
    *,
    prepare: Callable[[], None] = lambda: None,
    finish: Callable[[], None] = lambda: None,
    searching: bool = False,
) -> Run:
    """Run ``kdump ARGV`` in a child, whose calls that change files go through ``around``.

    ``prepare`` is called in the child before, ``finish`` behind it; standard input is no terminal.
    Other processes are searched for open files only with ``searching``: it takes half the time.
    """
    out, err = (os.memfd_create(name) for name in ("out", "err"))
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _child(argv, around, prepare if searching else _unsearched(prepare), finish, out, err)
    try:
        _, status = os.waitpid(pid, 0)
        texts = [_text(descriptor) for descriptor in (out, err)]
    finally:
        os.close(out)
        os.close(err)
    check_lines(texts[0])
    return Run(tuple(argv), os.waitstatus_to_exitcode(status), *texts)


def _child(
    argv: Sequence[str],
    around: Around | None,
    prepare: Callable[[], None],
    finish: Callable[[], None],
    out: int,
    err: int,
) -> None:
    code = 99
    try:
        signal.alarm(_SECONDS)
        null = os.open(os.devnull, os.O_RDONLY)
        for number, descriptor in enumerate((null, out, err)):
            os.dup2(descriptor, number)
        sys.stdout, sys.stderr = (
            io.TextIOWrapper(io.FileIO(number, "w", closefd=False), encoding="utf-8")
            for number in (1, 2)
        )
        sys.stdin = io.TextIOWrapper(io.FileIO(0, "r", closefd=False))
        if around is not None:
            disk.SYSTEM = Watched(around)
        prepare()
        code = kdump.cli.main.main(list(argv))
        sys.stdout.flush()
        sys.stderr.flush()
        finish()
    except BaseException:  # noqa: BLE001  whatever it is, it must not go on as a second test session
        with suppress(Exception):
            import traceback

            traceback.print_exc()
            sys.stderr.flush()
        code = 98
    finally:
        os._exit(code)


def _unsearched(prepare: Callable[[], None]) -> Callable[[], None]:
    def prepared() -> None:
        liveness._open_files = lambda *_: iter(())
        prepare()

    return prepared


def _text(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, size, 0).decode(errors="replace")
