"""Progress on standard error: a bar, or a line a minute.

It starts no thread, because workers are forked beside it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Final, Literal, Protocol, Self

import click

from kdump.ui.kernel import warn_if_plain
from kdump.ui.units import duration_text, part_text, rate_text, size_text

Mode = Literal["auto", "bar", "line", "none"]

progress_option = click.option(
    "--progress",
    type=click.Choice(["auto", "bar", "line", "none"]),
    default="auto",
    show_default=True,
    help="Show progress on standard error: a bar, or a line a minute. With auto, a terminal "
    "gets a bar. SIGUSR1 prints a line at once, except with none.",
)

_LINE_SECONDS: Final = 60.0
_BAR_SECONDS: Final = 0.1
_ESTIMATE_SECONDS: Final = 3.0  # before that a rate is mostly start-up


class _Display(Protocol):
    """Shows the progress of a run."""

    def show(self, progress: Progress) -> None: ...

    def open(self) -> None: ...

    def close(self) -> None: ...


class Progress:
    """Counts the work done and shows it in the chosen ``mode``; a context manager.

    Inside the ``with`` block, SIGUSR1 prints one line, or nothing in the mode ``none``.
    """

    def __init__(self, mode: Mode, clock: Callable[[], float] = time.monotonic) -> None:
        self.total: int | None = 0
        self.done = 0
        self._things: str | None = None
        self._warned = False
        self._mode = _on_this_terminal() if mode == "auto" else mode
        self._clock = clock
        self._started = self._shown = clock()
        self._interval = _BAR_SECONDS if self._mode == "bar" else _LINE_SECONDS
        self._display: _Display | None = None
        self._handler: signal.Handlers | Callable[[int, FrameType | None], object] | int | None
        self._handler = None

    def __enter__(self) -> Self:
        quiet = self._mode == "none"
        self._handler = signal.signal(signal.SIGUSR1, signal.SIG_IGN if quiet else self._on_signal)
        if self._mode == "bar":
            self._display = _Bar()
        elif self._mode == "line":
            self._display = _Lines()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._display is not None:
            self._display.close()
        signal.signal(signal.SIGUSR1, self._handler)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Hide the display inside the ``with`` block, so that other text can be printed."""
        if self._display is not None:
            self._display.close()
        try:
            yield
        finally:
            if self._display is not None:
                self._display.open()

    def expect(self, total: int | None, things: str | None = None, *, kernel: bool = True) -> None:
        """Begin to count ``total`` of ``things``, a plural noun; None for bytes.

        The total is None if nothing tells it. ``kernel`` says whether the loops of the kernel do
        the work.
        """
        if things is None and total is not None and kernel and self._mode != "none":
            self._warn(total)
        self.total, self.done, self._things = total, 0, things
        self._started = self._clock()

    def _warn(self, total: int) -> None:
        if not self._warned:
            self._warned = True
            warn_if_plain([total])

    def advance(self, count: int) -> None:
        """Add ``count`` to the work done, and update the display if it is due."""
        # A segment that is read again, after its worker died, counts once.
        done = self.done + count
        self.done = done if self.total is None else min(done, self.total)
        now = self._clock()
        if self._display is not None and now - self._shown >= self._interval:
            self._shown = now
            self._display.show(self)

    @contextmanager
    def part(self, size: int) -> Iterator[Callable[[int], None]]:
        """Count ``size`` for the work inside the ``with`` block.

        Yields what to call instead of ``advance``. More than ``size`` is not counted, and at the
        end the rest is, so that the estimate holds for work whose size is known roughly.
        """
        left = size

        def advance(count: int) -> None:
            nonlocal left
            count = min(count, left)
            left -= count
            self.advance(count)

        yield advance
        advance(left)

    @property
    def seconds(self) -> float:
        """The seconds since ``expect``."""
        return self._clock() - self._started

    def line(self) -> str:
        """Return a line with the work done, the rate and the estimated time left."""
        seconds = self.seconds
        if self.total is None:
            text = f"{size_text(self.done)} read"
            if seconds >= _ESTIMATE_SECONDS and self.done:
                text += f", {rate_text(self.done, seconds)}"
            return text
        if self._things is None:
            text = part_text(self.done, self.total)
        else:
            text = f"{self.done:,} of {self.total:,} {self._things}"
        if self.total:
            text += f" ({100 * self.done // self.total} %)"
        if seconds >= _ESTIMATE_SECONDS and self.done:
            left = (self.total - self.done) * seconds / self.done
            if self._things is None:
                text += f", {rate_text(self.done, seconds)}"
            text += f", about {duration_text(left)} left"
        return text

    def note(self, text: str) -> None:
        """Print a line at once, except in the mode ``none``."""
        if self._mode != "none":
            print(f"kdump: {text}", file=sys.stderr, flush=True)

    def _on_signal(self, _: int, __: FrameType | None) -> None:
        # The signal may have interrupted a write to sys.stderr, which is not reentrant.
        os.write(2, f"kdump: {self.line()}\n".encode())


class _Lines:
    """Prints a line for each update."""

    def show(self, progress: Progress) -> None:
        print(f"kdump: {progress.line()}", file=sys.stderr, flush=True)

    def open(self) -> None:
        """Do nothing: lines need no preparation."""

    def close(self) -> None:
        """Do nothing: lines stay on the screen."""


class _Bar:
    """Draws a bar again for each update, and removes it at the end."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            BarColumn(bar_width=20),
            TextColumn("{task.description}", markup=False),
            console=Console(stderr=True),
            auto_refresh=False,
            transient=True,
        )
        self._task = self._bar.add_task("", total=None)
        self.open()

    def show(self, progress: Progress) -> None:
        self._bar.update(
            self._task,
            total=progress.total,
            completed=progress.done,
            description=progress.line(),
            refresh=True,
        )

    def open(self) -> None:
        self._bar.start()

    def close(self) -> None:
        self._bar.stop()


def _on_this_terminal() -> Mode:
    if sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return "bar"
    return "line"
