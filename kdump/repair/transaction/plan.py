"""Plan: the steps of a repair of one partition and what they cost, as plain values, and their JSON.

Names of files are relative to the partition directory. The checkpoint files and the clean shutdown
marker belong to its log directory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from dataclasses import fields as dataclass_fields
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from kdump.audit.survey.recovery import Span
from kdump.audit.targets.target import Target
from kdump.errors import Refused
from kdump.format.lines.shell import operand
from kdump.storage.paths import as_local
from kdump.values import frozen

#: Characters of the digest in the id of a plan.
_ID_LENGTH: Final = 8
_SCHEMA: Final = 1
_NOTHING: Final = Span()


@frozen
class Stamp:
    """The size of a file in bytes and its modification time in ns: they show that it changed."""

    size: int
    mtime_ns: int


@frozen
class RebuiltIndex:
    """A recipe: an index of the segment with this log, as the broker's recovery builds it.

    ``extension`` is ``.index`` or ``.timeindex``, ``interval_bytes`` the topic's
    ``index.interval.bytes``.
    """

    log: str
    extension: str
    interval_bytes: int


@frozen
class Prefix:
    """A recipe: the first ``size`` bytes of the file that the step replaces."""

    size: int


@frozen
class ConvertedPart:
    """A recipe: part number ``part`` of the conversion of a log to magic 2.

    ``codec`` compresses every rewritten batch; None keeps the codec that each batch had. Messages
    are joined to batches of ``batch_bytes``. ``records`` and ``digest`` are the count and the
    digest of the records of the old log in that part. ``epochs`` are the leader epochs of the new
    batches, each with its first offset.
    """

    log: str
    codec: str | None
    batch_bytes: int
    part: int
    records: int
    digest: str
    epochs: tuple[tuple[int, int], ...] = ()


class Piece(NamedTuple):
    """The ``size`` bytes from ``position`` on of the file at ``path``, with their SHA-256.

    ``path`` is empty for the file that the step replaces; its pieces have no digest of their own.
    ``content`` are the bytes in hex, in place of those of a file; empty for a piece of a file.
    """

    path: str
    position: int
    size: int
    sha256: str
    content: str = ""


@frozen
class Assembly:
    """A recipe: the ``pieces`` of logs, one after the other."""

    pieces: tuple[Piece, ...]

    @property
    def taken(self) -> tuple[Piece, ...]:
        """The pieces of other files than the one that the step replaces."""
        return tuple(piece for piece in self.pieces if piece.path)


Recipe = RebuiltIndex | Prefix | ConvertedPart | Assembly


@frozen
class Remove:
    """Move a file into the backup."""

    name: str


@frozen
class Put:
    """Put a file of ``size`` bytes with this SHA-256 in place.

    ``replaces``: a file of this name exists, and goes into the backup. ``content`` is None where
    ``recipe`` makes the file when the step is done. A ``RebuiltIndex`` may have both.
    ``mtime_ns`` is its modification time, None for the time of the repair.
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
        """Return the step that puts ``content`` in place."""
        return cls(name, len(content), sha256(content).hexdigest(), replaces, content=content)

    def time_ns(self, begun_ns: int) -> int:
        """Return its modification time in ns in a repair that began at ``begun_ns``."""
        return begun_ns if self.mtime_ns is None else self.mtime_ns


@frozen
class Cut:
    """Cut a log at ``size`` bytes; the tail goes into the backup.

    ``tail_sha256`` is the digest of the tail by ``tail_digest``. ``last_header`` is the header of
    the last batch that stays, in hex; empty if no batch stays.
    """

    name: str
    size: int
    tail_sha256: str
    last_header: str


@frozen
class Line:
    """Change this partition's line in a checkpoint file; None means no line."""

    checkpoint: str
    before: int | None
    after: int | None


@frozen
class Rewrite:
    """Replace a whole checkpoint file by one of ``size`` bytes with this SHA-256.

    The replaced file has ``before_size`` and ``before_mtime_ns``, and goes into the backup.
    """

    checkpoint: str
    size: int
    sha256: str
    before_size: int
    before_mtime_ns: int
    content: bytes | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, checkpoint: str, content: bytes, before: Stamp) -> Rewrite:
        """Return the step that replaces the checkpoint file by ``content``."""
        digest = sha256(content).hexdigest()
        return cls(checkpoint, len(content), digest, before.size, before.mtime_ns, content)

    @property
    def before(self) -> Stamp:
        """The stamp of the file that it replaces."""
        return Stamp(self.before_size, self.before_mtime_ns)


@frozen
class TakeMarker:
    """Remove the clean shutdown marker, so that a start during the repair recovers the logs."""


@frozen
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
    "rebuilt": RebuiltIndex,
    "prefix": Prefix,
    "converted": ConvertedPart,
    "assembled": Assembly,
}


@frozen
class Loss:
    """The records that a repair removes from the partition; they stay in the backup.

    ``size`` counts bytes of logs. ``producers`` counts the producers that lose records,
    ``committed`` the transactions that end there, ``opened`` the transactions that stay open
    because their end is lost. ``below_high_watermark``: consumers may have read lost records.
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
    """The changes to the partition directory at ``partition``; nothing to do without ``steps``.

    ``arguments`` are the options of the command. ``identity`` is the directory's device and inode.
    ``log_directory`` is None for a partition outside of any log directory. ``files`` has the stamp
    of every file in the partition directory when the plan was made. ``log_end`` is the log end
    offset before and after, None if unknown. ``notes`` are sentences for the reader of the plan.
    ``holes`` are the first and last offsets of each gap that it leaves on purpose.
    """

    command: str
    arguments: tuple[str, ...]
    partition: Path
    identity: tuple[int, int]
    log_directory: Path | None
    steps: tuple[Step, ...]
    files: Mapping[str, Stamp]
    loss: Loss = field(default_factory=Loss)
    log_start: int | None = None
    log_end: tuple[int | None, int | None] = (None, None)
    notes: tuple[str, ...] = ()
    holes: tuple[tuple[int, int], ...] = ()

    @property
    def lossy(self) -> bool:
        """Whether records are lost, so that applying it needs its id as consent."""
        return bool(self.loss)

    @cached_property
    def id(self) -> str:
        """Its name: a digest of all fields but the two paths."""
        fields = encode(self)
        del fields["partition"], fields["log_directory"]
        text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        return sha256(text.encode()).hexdigest()[:_ID_LENGTH]

    @property
    def puts(self) -> tuple[Put, ...]:
        """The files that are put in place."""
        return tuple(step for step in self.steps if isinstance(step, Put))

    @property
    def conversions(self) -> tuple[tuple[Put, ConvertedPart], ...]:
        """The converted logs that are put in place, with their recipes."""
        return tuple(
            (put, put.recipe) for put in self.puts if isinstance(put.recipe, ConvertedPart)
        )

    @property
    def assemblies(self) -> tuple[tuple[Put, Assembly], ...]:
        """The logs that are put together of pieces, with their recipes."""
        return tuple((put, put.recipe) for put in self.puts if isinstance(put.recipe, Assembly))

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """The logs that are cut."""
        return tuple(step for step in self.steps if isinstance(step, Cut))

    @property
    def rewrites(self) -> tuple[Rewrite, ...]:
        """The checkpoint files that are replaced."""
        return tuple(step for step in self.steps if isinstance(step, Rewrite))

    @property
    def changed_files(self) -> frozenset[str]:
        """The names of all files in the partition directory that a step changes."""
        return frozenset(step.name for step in self.steps if isinstance(step, Remove | Put | Cut))

    @property
    def moved_files(self) -> tuple[str, ...]:
        """The names of the files that move into the backup as whole files."""
        return tuple(
            step.name
            for step in self.steps
            if isinstance(step, Remove) or (isinstance(step, Put) and step.replaces)
        )

    @property
    def missing_files(self) -> tuple[str, ...]:
        """Files that steps remove and ``files`` lacks: the directory has changed since."""
        removed = (*self.moved_files, *(cut.name for cut in self.cuts))
        return tuple(name for name in removed if name not in self.files)

    @property
    def tail_bytes(self) -> int:
        """The bytes of the tails that are cut off; where nothing can be cloned they take space."""
        return sum(self.files[cut.name].size - cut.size for cut in self.cuts)

    @property
    def new_bytes(self) -> int:
        """The bytes of new files and of replaced checkpoint files, which stay in the backup."""
        rewritten = sum(step.size + step.before_size for step in self.rewrites)
        return sum(put.size for put in self.puts) + rewritten


def changed_since(partition: Path, what: str) -> Refused:
    """Return the refusal of a plan whose files changed after it was made; ``what`` did."""
    return Refused(
        f"{partition}: expected the files that the plan was made for, found other files ({what}): "
        "plan again"
    )


def encode(plan: Plan) -> dict[str, Any]:
    """Return the JSON fields of ``plan``, without the contents of files."""
    fields = {
        "schema": _SCHEMA,
        "command": plan.command,
        "arguments": list(plan.arguments),
        "partition": str(plan.partition),
        "identity": list(plan.identity),
        "log_directory": None if plan.log_directory is None else str(plan.log_directory),
        "steps": [_encode_step(step) for step in plan.steps],
        "files": {name: [stamp.size, stamp.mtime_ns] for name, stamp in sorted(plan.files.items())},
        "loss": encode_loss(plan.loss),
        "log_start": plan.log_start,
        "log_end": list(plan.log_end),
        "notes": list(plan.notes),
    }
    # A plan of an earlier release has no holes, and its id stays the same.
    return fields | {"holes": encode_holes(plan.holes)} if plan.holes else fields


def encode_holes(holes: Iterable[tuple[int, int]]) -> list[dict[str, int]]:
    """Return the JSON of gaps, by their first and last offsets, as receipts have it."""
    return [{"first_offset": first, "last_offset": last} for first, last in holes]


def decode(fields: Mapping[str, Any]) -> Plan:
    """Return the plan whose JSON fields are ``fields``.

    Raises AttributeError, KeyError, TypeError, ValueError if they do not describe a plan.
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
        tuple((hole["first_offset"], hole["last_offset"]) for hole in fields.get("holes", ())),
    )


def log_directory_of(target: Target) -> Path | None:
    """Return the path of the log directory of ``target``, None outside of any log directory."""
    return None if target.directory is None else as_local(target.directory.directory.path)


def with_paths(plan: Plan, partition: Path, log_directory: Path | None) -> Plan:
    """Return the plan with these paths, which lead to the same directories."""
    return replace(plan, partition=partition, log_directory=log_directory)


def finish_command(plan: Plan) -> tuple[str, ...]:
    """Return the command that finishes a plan, with the id as consent where it is lossy."""
    confirm = ("--confirm", plan.id) if plan.lossy else ()
    path = operand(plan.partition)
    return ("kdump", plan.command, *plan.arguments, path, "--apply", *confirm)


def encode_loss(loss: Loss) -> dict[str, Any]:
    """Return the JSON fields of ``loss``."""
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
    kind = next(name for name, step_type in _STEPS.items() if isinstance(step, step_type))
    encoded = _by_name(step)
    encoded.pop("content", None)
    if isinstance(step, Put):
        encoded["recipe"] = None if step.recipe is None else _encode_recipe(step.recipe)
    return {"step": kind, **encoded}


def _encode_recipe(recipe: Recipe) -> dict[str, Any]:
    kind = next(name for name, recipe_type in _RECIPES.items() if isinstance(recipe, recipe_type))
    # A plan of an earlier release has no epochs, and no contents: its id stays the same.
    encoded = {name: value for name, value in _by_name(recipe).items() if value != ()}
    if isinstance(recipe, Assembly):
        encoded["pieces"] = [piece if piece.content else piece[:-1] for piece in recipe.pieces]
    return {"from": kind, **encoded}


def _by_name(value: Step | Recipe) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in dataclass_fields(value)}


def _decode_step(fields: Mapping[str, Any]) -> Step:
    rest = {name: value for name, value in fields.items() if name != "step"}
    if rest.get("recipe") is not None:
        recipe = dict(rest["recipe"])
        _check_names(recipe)
        if "epochs" in recipe:
            recipe["epochs"] = tuple((epoch, offset) for epoch, offset in recipe["epochs"])
        if "pieces" in recipe:
            recipe["pieces"] = tuple(Piece(*piece) for piece in recipe["pieces"])
            for piece in recipe["pieces"]:
                bytes.fromhex(piece.content)
        rest["recipe"] = _RECIPES[recipe.pop("from")](**recipe)
    _check_names(rest)
    return _STEPS[fields["step"]](**rest)


def _check_names(fields: Mapping[str, Any]) -> None:
    """Raise ValueError for a name that leads out of the directory."""
    for key in {"name", "checkpoint", "log"}.intersection(fields):
        if "/" in fields[key] or fields[key] in ("", ".", ".."):
            raise ValueError(f"expected the name of a file, found {fields[key]}")
