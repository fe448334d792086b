"""The sequence of steps after a comparison: repair, compare again, and only then start and elect.

All commands are printed: whoever follows the steps to their end has left nothing out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from kdump.audit.commands import (
    COPY,
    Remedy,
    copy_text,
    heal_command,
    salvage_command,
    truncate_command,
    unclean_election_command,
)
from kdump.audit.facts.remote_storage import ranges_text
from kdump.copies.comparison import Comparison, ComparisonState, Unordered
from kdump.copies.copy import Copy, OffsetRange
from kdump.storage.manifests.path import ManifestPath
from kdump.storage.paths import AnyPath
from kdump.ui.units import count_text
from kdump.values import frozen


@frozen
class AdviceStep:
    """A step after a comparison, with the commands that take it, if there are any."""

    text: str
    commands: tuple[Remedy, ...] = ()


@frozen
class _Heal:
    """A copy that takes from others what it has lost; with ``brought`` they are not at hand.

    ``unordered`` says where it is truncated first, None if it is not.
    """

    copy: Copy
    command: Remedy
    brought: bool
    unordered: Unordered | None


@frozen
class _Save:
    """A copy of which another one, called ``leader``, makes records go, and what saves them."""

    leader: str
    path: AnyPath
    records: int
    command: Remedy


@frozen
class _Choice:
    """A copy that may lead, and what it lacks of the records of others."""

    copy: int
    lacks: tuple[OffsetRange, ...]

    @property
    def offsets(self) -> int:
        """The number of offsets that it lacks."""
        return sum(end - first for first, end in self.lacks)

    @property
    def text(self) -> str:
        """The ranges, with their first and last offsets."""
        return ranges_text(tuple((first, end - 1) for first, end in self.lacks))


class Advice:
    """What follows from the comparisons of a run, which the command ``again`` makes once more."""

    def __init__(self, again: Remedy) -> None:
        self._again = again
        self._first: Counter[int] = Counter()
        self._renames: list[AdviceStep] = []
        self._heals: list[_Heal] = []
        self._saves: list[_Save] = []
        self._choices: list[AdviceStep] = []
        self._unclean: list[AdviceStep] = []

    def add(self, found: Comparison) -> None:
        """Add a partition."""
        if found.aside:  # the replica that is missing may be the best one
            name = f"{found.topic}-{found.partition}"
            self._renames += (
                AdviceStep(f"while its broker is stopped, rename {path} to {name}")
                for path in found.aside
            )
            return
        heals = list(_heals(found))
        if heals:  # the first choice, and what it cuts, may then be others
            self._heals.extend(heals)
            return
        if found.state not in (ComparisonState.DIFFERENT, ComparisonState.LAGGING):
            return
        if len(found.copies) == 1 and not found.missing:
            return
        choices = list(_choices(found))
        index = choices[0].copy if choices else found.first
        first = found.copies[index]
        name = "the first choice" if first.node_id is None else f"node {first.node_id}"
        saves = list(_saves(found, index, name))
        if choices:
            self._choices.append(_choice_step(found, choices, [save.path for save in saves]))
        self._saves.extend(saves)
        nodes = {copy.node_id for copy in found.copies}.union(found.missing)
        if (
            first.node_id is not None
            and first.can_lead
            and len(nodes) > 1  # else they are backups of one
            and not any(copy.live for copy in found.copies)
        ):
            self._first[first.node_id] += 1
        outside = found.in_sync(index) is False and not found.eligible(index)
        if outside and first.can_lead:
            self._unclean.append(
                AdviceStep(
                    f"{name} is not in sync for {found.topic}-{found.partition}: start it alone, "
                    "then elect it",
                    (unclean_election_command(found.topic, found.partition),),
                )
            )

    def steps(self) -> Iterator[AdviceStep]:
        """Yield the steps in their order."""
        changed = [*(heal.copy.path for heal in self._heals), *(save.path for save in self._saves)]
        for before in dict.fromkeys(map(copy_text, changed)):
            if before is not None:
                yield AdviceStep(before)
        yield from self._renames
        yield from map(_truncation_step, (heal for heal in self._heals if heal.unordered))
        yield from _heal_steps(heal for heal in self._heals if not heal.unordered)
        if self._renames or self._heals:
            text = "compare again before a broker starts: the result says who may lead"
            yield AdviceStep(text, (self._again,))
        yield from self._choices
        yield from _save_steps(self._saves)
        if self._first:
            others = " for the other partitions" if self._renames or self._heals else ""
            nodes = [node for node, _ in self._first.most_common()]
            if len(nodes) == 1:
                yield AdviceStep(f"start node {nodes[0]} first{others}")
            else:
                counts = ", ".join(f"node {node} for {self._first[node]:,}" for node in nodes)
                yield AdviceStep(f"nodes to start first, by their number of partitions: {counts}")
        yield from self._unclean


def _truncation_step(heal: _Heal) -> AdviceStep:
    """Return the step that truncates a copy and restores what that removes."""
    assert heal.unordered is not None
    text = (
        f"{heal.copy.path} lacks batches, or has wrong offsets or leader epochs in them, which no "
        "checksum covers; to truncate it before these, and to restore all that this removes"
    )
    return AdviceStep(
        text + _where([heal], brought=heal.brought),
        (truncate_command(heal.copy.path, heal.unordered.offset), heal.command),
    )


def _heal_steps(heals: Iterable[_Heal]) -> Iterator[AdviceStep]:
    """Yield the steps that repair copies, first those for which other copies are at hand."""
    by_place: dict[bool, list[_Heal]] = {False: [], True: []}
    for heal in heals:
        by_place[heal.brought].append(heal)
    for brought, found in by_place.items():
        if not found:
            continue
        many = len(found) > 1
        text = f"{len(found):,} replicas have" if many else f"{found[0].copy.path} has"
        text += " lost records that others have; to restore them"
        text += _where(found, brought=brought)
        yield AdviceStep(text, tuple(heal.command for heal in found))


def _where(found: Sequence[_Heal], *, brought: bool) -> str:
    """Return what the text of a step says of where and when its commands can run."""
    many, text = len(found) > 1, ""
    if brought:
        host = "the host of each" if many else "its host"
        text += f" from one that is copied to {host} as COPY"
    if any(heal.copy.live for heal in found):
        text += f", once {'their brokers are' if many else 'its broker is'} stopped"
    return text


def _heals(found: Comparison) -> Iterator[_Heal]:
    """Yield the repairs of copies that have lost what others have."""
    for index, copy in enumerate(found.copies):
        ordered = [found.copies[number].path for number in found.heal_sources(index)]
        if not ordered:
            continue
        at_hand = [source for source in ordered if not isinstance(source, ManifestPath)]
        brought = isinstance(copy.path, ManifestPath) or not at_hand
        command = heal_command(copy.path, [COPY] if brought else at_hand)
        yield _Heal(copy, command, brought, found.unordered[index])


def _save_steps(saves: Iterable[_Save]) -> Iterator[AdviceStep]:
    """Yield a step for each leader that makes others lose records."""
    by_leader: dict[str, list[_Save]] = {}
    for save in saves:
        by_leader.setdefault(save.leader, []).append(save)
    for leader, found in by_leader.items():
        records = count_text(sum(save.records for save in found), "record")
        named = f"{found[0].path} loses" if len(found) == 1 else f"{len(found):,} replicas lose"
        text = f"{named} {records} when {leader} leads; to save them first"
        if any(isinstance(save.path, ManifestPath) for save in found):
            text += f", on {'the host of each' if len(found) > 1 else 'its host'}"
        yield AdviceStep(text, tuple(save.command for save in found))


def _choices(found: Comparison) -> list[_Choice]:
    """Return what each copy that may lead lacks of the others, the one that lacks least first.

    Empty if a copy has all records, or if no copy has lost any: then the order alone decides. So it
    does where logs have parted: each leader truncates others, which the report says.
    """
    copies = found.copies
    parted = any(
        not any(copies[index].disordered for index in each.copies) for each in found.differences
    )
    if parted or not any(copy.lost or copy.unordered for copy in copies):
        return []
    leaders = [index for index in found.order if copies[index].can_lead]
    choices = [_Choice(index, found.lacks(index)) for index in leaders]
    if len(choices) < 2 or not all(choice.lacks for choice in choices):
        return []
    elected = [each for each in choices if found.in_sync(each.copy) or found.eligible(each.copy)]
    best = min(elected or choices, key=lambda choice: choice.offsets)
    return [best, *(choice for choice in choices if choice is not best)]


def _choice_step(
    found: Comparison, choices: Sequence[_Choice], saved: Sequence[AnyPath]
) -> AdviceStep:
    """Return the step that says what each choice of a leader loses, and saves that.

    A later step saves the records of the copies at the paths ``saved``.
    """
    names = [_name(found.copies[choice.copy]) for choice in choices]
    losses = ", ".join(
        f"{name} lacks offsets {choice.text}" for name, choice in zip(names, choices, strict=True)
    )
    counts = [choice.offsets for choice in choices]
    least = ""
    if counts.count(min(counts)) == 1:
        best = counts.index(min(counts))
        outside = found.in_sync(choices[best].copy) is False and best > 0
        least = f", least if {names[best]} leads"
        least += " after an unclean election" if outside else ""
    text = (
        f"{found.topic}-{found.partition}: no replica has all records, and heal cannot unite them. "
        f"The leader decides what is lost{least}: {losses}"
    )
    others = [found.copies[choice.copy].path for choice in choices[1:]]
    commands = tuple(salvage_command(path) for path in others if path not in saved)
    return AdviceStep(f"{text}. To save the others first" if commands else text, commands)


def _name(copy: Copy) -> str:
    return str(copy.path) if copy.node_id is None else f"node {copy.node_id}"


def _saves(found: Comparison, leader: int, name: str) -> Iterator[_Save]:
    """Yield what other copies lose when the copy ``leader``, called ``name``, leads."""
    for leadership in found.leaderships:
        if leadership.leader == leader:
            for cut in leadership.cuts:
                if cut.records:
                    path = found.copies[cut.copy].path
                    yield _Save(name, path, cut.records, salvage_command(path))
