"""Plan: the steps of a repair of one partition and what they cost, as plain values.

Names are of files in the partition directory; the checkpoint files and the clean shutdown marker
are those of its log directory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from kdump.audit.survey.recovery import Span
from kdump.format.lines.shell import operand

#: So many characters of a digest name a plan.
_ID_LENGTH: Final = 8
_SCHEMA: Final = 1
_NOTHING: Final = Span()


@dataclass(frozen=True, slots=True)
class Stamp:
    """By what a file is told to be as it was: its bytes, and when it was written, in ns."""

    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A recipe: an index of the segment with this log, by the broker's rule of recovery.

    ``extension`` is ``.index`` or ``.timeindex``, ``interval_bytes`` the topic's
    ``index.interval.bytes``.
    """

    log: str
    extension: str
    interval_bytes: int


@dataclass(frozen=True, slots=True)
class Prefix:
    """A recipe: the first ``size`` bytes of the file that the step replaces."""

    size: int


@dataclass(frozen=True, slots=True)
class Converted:
    """A recipe: part number ``part`` of what a log is with its old batches as batches of magic 2.

    ``codec`` compresses all that are rewritten, None keeps what each had; messages are joined to
    batches of ``batch_bytes``. ``records`` and ``digest`` say what the old log holds in that part.
    ``epochs`` are the leader epochs of the new batches, each with its first offset.
    """

    log: str
    codec: str | None
    batch_bytes: int
    part: int
    records: int
    digest: str
    epochs: tuple[tuple[int, int], ...] = ()


Recipe = Rebuilt | Prefix | Converted


@dataclass(frozen=True, slots=True)
class Remove:
    """Take a file away, into the backup."""

    name: str


@dataclass(frozen=True, slots=True)
class Put:
    """Put a file of ``size`` bytes with this SHA-256 in its place.

    ``replaces`` says that one stands there until then, which goes into the backup. ``content`` is
    None where it is made by ``recipe`` when it is needed; a ``Rebuilt`` file with a ``content`` can
    be made either way. ``mtime_ns`` is the time that it gets, None for that of the repair.
    """

    name: str
    size: int
    sha256: str
    replaces: bool
    recipe: Recipe | None = None
    content: bytes | None = field(default=None, compare=False, repr=False)
    mtime_ns: int | None = None

    @classmethod
    def of(cls, name: str, content: bytes, *, replaces: bool) -> Put:
        """The step that puts ``content`` there."""
        return cls(name, len(content), sha256(content).hexdigest(), replaces, content=content)

    def time_ns(self, begun_ns: int) -> int:
        """The time that it gets in a repair that began at ``begun_ns``."""
        return begun_ns if self.mtime_ns is None else self.mtime_ns


@dataclass(frozen=True, slots=True)
class Cut:
    """Cut a log at ``size`` bytes; the tail goes into the backup.

    ``tail_sha256`` is that of the tail, ``last_header`` the header of the last batch that stays, in
    hex; empty without one.
    """

    name: str
    size: int
    tail_sha256: str
    last_header: str


@dataclass(frozen=True, slots=True)
class Line:
    """Change this partition's line in a checkpoint file; None stands for no line."""

    checkpoint: str
    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Put a whole checkpoint file of ``size`` bytes with this SHA-256 in place of another one.

    That one has ``before_size`` and ``before_mtime_ns``, and goes into the backup.
    """

    checkpoint: str
    size: int
    sha256: str
    before_size: int
    before_mtime_ns: int
    content: bytes | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, checkpoint: str, content: bytes, before: Stamp) -> Rewrite:
        """The step that puts ``content`` there."""
        digest = sha256(content).hexdigest()
        return cls(checkpoint, len(content), digest, before.size, before.mtime_ns, content)

    @property
    def before(self) -> Stamp:
        """The stamp of the file that it replaces."""
        return Stamp(self.before_size, self.before_mtime_ns)


@dataclass(frozen=True, slots=True)
class TakeMarker:
    """Take the clean shutdown marker away, so that a start in between recovers."""


@dataclass(frozen=True, slots=True)
class PutMarker:
    """Put an empty clean shutdown marker back."""


Step = Remove | Put | Cut | Line | Rewrite | TakeMarker | PutMarker

_STEPS: Final[Mapping[str, type[Step]]] = {
    "remove": Remove,
    "put": Put,
    "cut": Cut,
    "line": Line,
    "rewrite": Rewrite,
    "take-marker": TakeMarker,
    "put-marker": PutMarker,
}
_RECIPES: Final[Mapping[str, type[Recipe]]] = {
    "rebuilt": Rebuilt,
    "prefix": Prefix,
    "converted": Converted,
}


@dataclass(frozen=True, slots=True)
class Loss:
    """What is no longer read afterwards, and stays in the backup.

    ``size`` is bytes of logs. ``producers`` are those of whom something is lost, ``committed`` the
    transactions that end there, ``opened`` those that stay open because their end is lost.
    ``below_high_watermark``: consumers may have seen some of it.
    """

    size: int = 0
    sound: Span = _NOTHING
    unreadable: Span = _NOTHING
    producers: int = 0
    committed: int = 0
    opened: int = 0
    below_high_watermark: bool = False

    def __bool__(self) -> bool:
        return bool(self.sound) or bool(self.unreadable)


@dataclass(frozen=True)
class Plan:
    """What is to be done to the partition directory at ``partition``; nothing without ``steps``.

    ``arguments`` are the options that led to it. ``identity`` is the directory's device and inode.
    ``log_directory`` is None for a partition that stands in none. ``files`` has the stamp of every
    file in the partition directory when it was planned. ``log_end`` is the log end offset before
    and after, None for unknown; ``notes`` are sentences for who reads the plan.
    """

    command: str
    arguments: tuple[str, ...]
    partition: Path
    identity: tuple[int, int]
    log_directory: Path | None
    steps: tuple[Step, ...]
    files: Mapping[str, Stamp]
    loss: Loss = Loss()
    log_start: int | None = None
    log_end: tuple[int | None, int | None] = (None, None)
    notes: tuple[str, ...] = ()

    @property
    def lossy(self) -> bool:
        """Whether records are lost, so that it needs more than a nod."""
        return bool(self.loss)

    @cached_property
    def id(self) -> str:
        """What names it: a digest of all but how the paths were spelled."""
        fields = encode(self)
        del fields["partition"], fields["log_directory"]
        text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        return sha256(text.encode()).hexdigest()[:_ID_LENGTH]

    @property
    def puts(self) -> tuple[Put, ...]:
        """The files that are put in place."""
        return tuple(step for step in self.steps if isinstance(step, Put))

    @property
    def converted(self) -> tuple[tuple[Put, Converted], ...]:
        """Those of them that are converted logs, with their recipes."""
        return tuple((put, put.recipe) for put in self.puts if isinstance(put.recipe, Converted))

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """The logs that are cut."""
        return tuple(step for step in self.steps if isinstance(step, Cut))

    @property
    def rewrites(self) -> tuple[Rewrite, ...]:
        """The checkpoint files that are replaced."""
        return tuple(step for step in self.steps if isinstance(step, Rewrite))

    @property
    def touched(self) -> frozenset[str]:
        """The names of all files that some step changes."""
        return frozenset(step.name for step in self.steps if isinstance(step, Remove | Put | Cut))

    @property
    def whole(self) -> tuple[str, ...]:
        """The names of files that go into the backup whole."""
        return tuple(
            step.name
            for step in self.steps
            if isinstance(step, Remove) or (isinstance(step, Put) and step.replaces)
        )

    @property
    def unlisted(self) -> tuple[str, ...]:
        """Files that steps take away, and that ``files`` lacks: the directory has changed since."""
        taken = (*self.whole, *(cut.name for cut in self.cuts))
        return tuple(name for name in taken if name not in self.files)

    @property
    def tail_bytes(self) -> int:
        """The bytes of tails that are cut off, which take space where nothing can be cloned."""
        return sum(self.files[cut.name].size - cut.size for cut in self.cuts)

    @property
    def new_bytes(self) -> int:
        """The bytes of new files; what they replace stays in the backup, and takes space too."""
        rewritten = sum(step.size + step.before_size for step in self.rewrites)
        return sum(put.size for put in self.puts) + rewritten


def encode(plan: Plan) -> dict[str, Any]:
    """Return ``plan`` as JSON has it; contents are left out."""
    return {
        "schema": _SCHEMA,
        "command": plan.command,
        "arguments": list(plan.arguments),
        "partition": str(plan.partition),
        "identity": list(plan.identity),
        "log_directory": None if plan.log_directory is None else str(plan.log_directory),
        "steps": [_encode_step(step) for step in plan.steps],
        "files": {name: [one.size, one.mtime_ns] for name, one in sorted(plan.files.items())},
        "loss": encode_loss(plan.loss),
        "log_start": plan.log_start,
        "log_end": list(plan.log_end),
        "notes": list(plan.notes),
    }


def decode(fields: Mapping[str, Any]) -> Plan:
    """Return the plan that ``fields`` were made of.

    Raises AttributeError, KeyError, TypeError, ValueError for what is no plan.
    """
    if fields["schema"] != _SCHEMA:
        raise ValueError(f"expected schema {_SCHEMA}, found {fields['schema']}")
    directory = fields["log_directory"]
    device, inode = fields["identity"]
    before, after = fields["log_end"]
    return Plan(
        fields["command"],
        tuple(fields["arguments"]),
        Path(fields["partition"]),
        (device, inode),
        None if directory is None else Path(directory),
        tuple(_decode_step(step) for step in fields["steps"]),
        {name: Stamp(*stamp) for name, stamp in fields["files"].items()},
        _decode_loss(fields["loss"]),
        fields["log_start"],
        (before, after),
        tuple(fields["notes"]),
    )


def located(plan: Plan, partition: Path, log_directory: Path | None) -> Plan:
    """The same plan with these paths, which lead to the same directories."""
    return replace(plan, partition=partition, log_directory=log_directory)


def finishing(plan: Plan) -> tuple[str, ...]:
    """The command that goes on with a plan, with the consent that it needs."""
    confirm = ("--confirm", plan.id) if plan.lossy else ()
    path = operand(plan.partition)
    return ("kdump", plan.command, *plan.arguments, path, "--apply", *confirm)


def encode_loss(loss: Loss) -> dict[str, Any]:
    """Return ``loss`` as JSON has it."""
    return {
        "bytes": loss.size,
        "sound": _encode_span(loss.sound),
        "unreadable": _encode_span(loss.unreadable),
        "producers": loss.producers,
        "committed": loss.committed,
        "opened": loss.opened,
        "below_high_watermark": loss.below_high_watermark,
    }


def _decode_loss(fields: Mapping[str, Any]) -> Loss:
    return Loss(
        fields["bytes"],
        Span(**fields["sound"]),
        Span(**fields["unreadable"]),
        fields["producers"],
        fields["committed"],
        fields["opened"],
        fields["below_high_watermark"],
    )


def _encode_span(span: Span) -> dict[str, Any]:
    return {
        "count": span.count,
        "first_offset": span.first_offset,
        "last_offset": span.last_offset,
        "first_timestamp": span.first_timestamp,
        "last_timestamp": span.last_timestamp,
        "unbounded": span.unbounded,
    }


def _encode_step(step: Step) -> dict[str, Any]:
    kind = next(name for name, each in _STEPS.items() if isinstance(step, each))
    fields = {name: getattr(step, name) for name in step.__slots__ if name != "content"}
    if isinstance(step, Put):
        fields["recipe"] = None if step.recipe is None else _encode_recipe(step.recipe)
    return {"step": kind, **fields}


def _encode_recipe(recipe: Recipe) -> dict[str, Any]:
    kind = next(name for name, each in _RECIPES.items() if isinstance(recipe, each))
    fields = {name: getattr(recipe, name) for name in recipe.__slots__}
    # A plan of an earlier release has no epochs, and its id stays the same.
    return {"from": kind, **{name: value for name, value in fields.items() if value != ()}}


def _decode_step(fields: Mapping[str, Any]) -> Step:
    rest = {name: value for name, value in fields.items() if name != "step"}
    if rest.get("recipe") is not None:
        recipe = dict(rest["recipe"])
        _check_names(recipe)
        if "epochs" in recipe:
            recipe["epochs"] = tuple((epoch, offset) for epoch, offset in recipe["epochs"])
        rest["recipe"] = _RECIPES[recipe.pop("from")](**recipe)
    _check_names(rest)
    return _STEPS[fields["step"]](**rest)


def _check_names(fields: Mapping[str, Any]) -> None:
    """Raise ValueError for a name that leads out of its directory."""
    for key in {"name", "checkpoint", "log"}.intersection(fields):
        if "/" in fields[key] or fields[key] in ("", ".", ".."):
            raise ValueError(f"expected the name of a file, found {fields[key]}")
