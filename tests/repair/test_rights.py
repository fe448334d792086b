"""As root, on directories of another user: a repair can do no more than that user could.

Each hostile directory here gave root away, or what belongs to root, before repairs had the owner's
rights and went through descriptors.
"""

from __future__ import annotations

import json
import os
import pwd
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kdump.audit.targets.target import assign, open_roots
from kdump.errors import KdumpError, Refused, Unfinished
from kdump.repair.newdir.building import build_directory
from kdump.repair.transaction.apply import apply
from kdump.repair.transaction.undo import newest_repair, undo
from kdump.storage.rights import Rights, acting, is_root
from kdump.storage.selection import Selection
from kdump.ui.exits import INCOMPLETE, OK, PROBLEMS, REFUSED, USAGE
from support import forge
from support.crashing.running import run
from support.crashing.subjects import CONVERT, LOSSY, POINT
from support.crashing.trees import take
from support.long_samples import first_of
from support.planning import failing_at, interrupt, truncation, undone

pytestmark = [
    pytest.mark.root,
    pytest.mark.usefixtures("unsearched"),
]

#: Of each command, and of what commands are made of.
TRIES = 1000
#: About as long as a command takes.
PAUSE_SECONDS = 0.02


@pytest.fixture
def nobody() -> int:
    return pwd.getpwnam("nobody").pw_uid


@pytest.fixture
def theirs(place: Path, nobody: int) -> Path:
    """A damaged partition of user nobody, in a log directory of that user."""
    LOSSY.write(place)
    give_all(place / "data", nobody)
    return LOSSY.partition(place)


@pytest.fixture
def precious(place: Path) -> Path:
    """A directory of root's that no other user may change, with files as in a plan's folder."""
    path = place / "etc"
    (path / "sub").mkdir(parents=True)
    for name in ("passwd", "sub/plan.json", f"{0:020d}.log"):
        (path / name).write_bytes(b"root's")
    return path


def give_all(top: Path, uid: int) -> None:
    gid = pwd.getpwuid(uid).pw_gid
    for path in (top, *top.rglob("*")):
        os.chown(path, uid, gid, follow_symlinks=False)


def argv(partition: Path, *more: str) -> list[str]:
    return ["truncate-to-valid", str(partition), "--apply", *more]


def confirmed(partition: Path) -> list[str]:
    """The command that repairs it, with the consent that it needs."""
    root = partition.parent.parent
    planned = run(LOSSY.argv(root, "--format", "json"))
    plan = json.loads(planned.out.splitlines()[1])
    return LOSSY.argv(root, "--apply", "--confirm", plan["id"])


def refused(command: list[str], precious: Path, *words: str) -> None:
    before = take(precious)
    ran = run(command)
    assert ran.code == REFUSED, ran
    assert "Traceback" not in ran.err, ran
    for word in words:
        assert word in ran.err, ran
    assert take(precious) == before


# --- folders that are none


def test_a_folder_of_repairs_that_is_a_link_is_refused(theirs: Path, precious: Path) -> None:
    command = confirmed(theirs)
    (theirs / ".kdump").symlink_to(precious)
    give_all(theirs, theirs.stat().st_uid)
    refused(command, precious, "/.kdump: expected a directory", "found a symbolic link")


def test_a_folder_in_it_that_no_repair_has_made_stays(theirs: Path, precious: Path) -> None:
    folder = theirs / ".kdump" / "abcdabcd"
    folder.mkdir(parents=True)
    (folder / "mine").write_bytes(b"mine")
    for path in (folder.parent, folder):
        path.chmod(0o700)
    give_all(theirs, theirs.stat().st_uid)
    refused(confirmed(theirs), precious, "abcdabcd/mine")
    assert (folder / "mine").read_bytes() == b"mine"


@pytest.mark.parametrize("name", ["old", "new"])
@pytest.mark.parametrize("undoing", [False, True], ids=["resume", "undo"])
def test_a_saved_directory_that_is_a_link_is_refused(
    theirs: Path, precious: Path, name: str, undoing: bool
) -> None:
    plan = truncation(theirs)
    interrupt(plan)
    inner = theirs / ".kdump" / plan.id / name
    shutil.rmtree(inner)
    inner.symlink_to(precious)
    os.chown(inner, theirs.stat().st_uid, -1, follow_symlinks=False)
    command = ["undo", "--apply", str(theirs)] if undoing else argv(theirs, "--confirm", plan.id)
    refused(command, precious, f"{plan.id}/{name}", "found a symbolic link")


@pytest.mark.parametrize("undoing", [False, True], ids=["resume", "undo"])
@pytest.mark.parametrize("what", ["owner", "mode"])
def test_a_plan_that_another_user_could_write_is_not_believed(
    theirs: Path, precious: Path, what: str, undoing: bool
) -> None:
    plan = truncation(theirs)
    interrupt(plan)
    path = theirs / ".kdump" / plan.id / "plan.json"
    if what == "owner":
        os.chown(path, 4321, -1)
    else:
        path.chmod(0o666)
    command = ["undo", "--apply", str(theirs)] if undoing else argv(theirs, "--confirm", plan.id)
    refused(command, precious, "plan.json")


# --- the lock


@pytest.mark.parametrize("kind", ["fifo", "link", "twin"])
def test_a_lock_that_is_no_file_of_its_own_is_refused(
    theirs: Path, precious: Path, kind: str
) -> None:
    command, lock = confirmed(theirs), theirs.parent / ".lock"
    words = {"fifo": "a FIFO", "link": "a symbolic link", "twin": "2 names"}[kind]
    if kind == "fifo":
        os.mkfifo(lock)
    elif kind == "link":
        lock.symlink_to(precious / "passwd")
    else:
        os.link(precious / "passwd", lock)
    refused([*command, "--assume-stopped"], precious, ".lock: expected the lock", words)


# --- whose rights


def test_a_repair_leaves_files_of_the_owner_alone(theirs: Path, nobody: int) -> None:
    ran = run(confirmed(theirs))
    assert ran.code == OK, ran
    assert {path.lstat().st_uid for path in theirs.parent.rglob("*")} == {nobody}
    ran = run(["undo", "--apply", str(theirs)])
    assert ran.code == OK, ran
    assert {path.lstat().st_uid for path in theirs.parent.rglob("*")} == {nobody}
    assert os.geteuid() == 0


@pytest.mark.parametrize("what", ["partition", "log", "checkpoint"])
def test_a_group_that_the_owner_is_not_in_is_named_with_its_command(
    theirs: Path, precious: Path, what: str
) -> None:
    path = {
        "partition": theirs,
        "log": min(theirs.glob("*.log")),
        "checkpoint": theirs.parent / "recovery-point-offset-checkpoint",
    }[what]
    os.chown(path, -1, 0)
    command, before = confirmed(theirs), take(theirs)
    give = f"chgrp -h {theirs.parent.stat().st_gid} {path}"
    refused(command, precious, f"{path}: expected a group that user", "found group 0", give)
    assert take(theirs) == before
    subprocess.run(shlex.split(give), check=True)
    ran = run(command)
    assert ran.code == OK, ran


@pytest.mark.parametrize("weakness", ["others write", "owner above", "owner of a link"])
def test_a_directory_of_root_that_others_can_redirect_is_refused(
    place: Path, precious: Path, nobody: int, weakness: str
) -> None:
    LOSSY.write(place)
    give_all(place / "data", 0)
    partition = LOSSY.partition(place)
    words = f"{place} belongs to user {nobody}"
    if weakness == "others write":
        place.chmod(0o777)
        words = f"{place} is writable for others"
    elif weakness == "owner above":
        os.chown(place, nobody, -1)
    else:
        link = place / "link"
        link.symlink_to(place / "data")
        os.chown(link, nobody, -1, follow_symlinks=False)
        partition = link / partition.name
        words = f"{link} belongs to user {nobody}"
    planned = run(["truncate-to-valid", str(partition), "--format", "json"])
    plan = json.loads(planned.out.splitlines()[1])
    refused(argv(partition, "--confirm", plan["id"]), precious, "only root can change", words)


def test_a_user_has_the_rights_of_their_groups_and_gives_them_back(nobody: int) -> None:
    before = Rights.current()
    with acting(Rights(nobody, nobody, (nobody,))):
        assert (os.geteuid(), os.getegid(), os.getgroups()) == (nobody, nobody, [nobody])
        assert is_root()
        with acting(Rights(4321, 4321, (4321,))):
            assert os.geteuid() == 4321
        assert os.geteuid() == nobody
    assert Rights.current() == before


# --- new directories


def damaged(top: Path) -> Path:
    good = forge.batch(0, [forge.record(b"value")])
    return forge.write_partition(top, "orders", 7, {0: [good]})


def test_no_new_directory_in_one_of_another_user(place: Path, precious: Path, nobody: int) -> None:
    origin = damaged(place / "in")
    output = place / "out"
    output.mkdir()
    give_all(output, nobody)
    refused(["salvage", str(origin), "--output", str(output)], precious, f"of user {nobody}")
    assert not list(output.iterdir())


def test_no_file_of_root_is_copied_for_another_user(place: Path, nobody: int) -> None:
    origin = damaged(place / "in")
    secret = place / "secret"
    secret.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    secret.chmod(0o600)
    (origin / "partition.metadata").unlink()
    (origin / "partition.metadata").symlink_to(secret)
    give_all(place / "in", nobody)
    run(["salvage", str(origin), "--output", str(place / "out")])
    copy = place / "out" / "orders-7" / "partition.metadata"
    assert not copy.exists() or copy.read_bytes() != secret.read_bytes()


# --- exports


@pytest.mark.once
def test_an_export_belongs_to_the_owner_of_the_directory_above(place: Path, nobody: int) -> None:
    home = place / "home"
    home.mkdir()
    give_all(home, nobody)
    export_to(home / "out", damaged(place / "in"))
    assert any((home / "out").rglob("part-*"))
    assert {path.lstat().st_uid for path in (home / "out", *(home / "out").rglob("*"))} == {nobody}
    assert os.geteuid() == 0


@pytest.mark.once
def test_a_task_follows_a_link_with_the_rights_of_the_owner(
    place: Path, precious: Path, nobody: int
) -> None:
    """An executor opens its file by a path, whose directories may be others by then."""
    (place / "link").symlink_to(precious)
    with pytest.raises(PermissionError):
        destination().open_sink(place / "link" / "part", Rights(nobody, nobody, ()))
    with pytest.raises(PermissionError):
        destination().discard(place / "link" / "passwd", Rights(nobody, nobody, ()))


@pytest.mark.once
def test_no_export_into_a_directory_of_root_that_others_can_write(place: Path) -> None:
    origin = damaged(place / "in")
    home = place / "home"
    home.mkdir()
    home.chmod(0o777)
    with pytest.raises(Refused, match="only root can change"):
        export_to(home / "out", origin)
    assert not list(home.iterdir())


def destination() -> ModuleType:
    import kdump.output.destination

    return kdump.output.destination


def export_to(to: Path, origin: Path) -> None:
    """What ``kdump export --to`` does, with its tasks in this process."""
    create = destination().create_destination
    from kdump.commands.export.export import Order, export
    from kdump.commands.export.output import FileFormat

    def here(
        work: Callable[[Any], Any], tasks: Sequence[Any], sizes: Sequence[int], **_: object
    ) -> Iterator[tuple[int, Any]]:
        yield from ((number, work(task)) for number, task in enumerate(tasks))

    groups = [each.with_listing() for root in open_roots([origin]) for each in assign(root)]
    with create(to) as directory:
        export(groups, Order(FileFormat.JSONL, Selection()), directory, here, {})


# --- swaps


@contextmanager
def pending_swaps(path: Path, other: Path, uid: int, pause_seconds: float = 0) -> Iterator[None]:
    """Another process of ``uid`` puts a link to ``other`` in the place of ``path``, and back.

    Between the swaps it waits for a random time, ``pause_seconds`` on average.
    """
    pid = os.fork()
    if pid == 0:
        chance = random.Random(21)
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        aside = f"{path}.aside"
        while True:
            with suppress(OSError):
                os.rename(path, aside)
            with suppress(OSError):
                os.symlink(other, path)
                time.sleep(chance.uniform(0, pause_seconds / 5))
                os.unlink(path)
            with suppress(OSError):
                os.rename(aside, path)
            time.sleep(chance.uniform(0, 2 * pause_seconds))
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@pytest.mark.parametrize("what", first_of([".kdump", "partition"], every=1))
def test_directories_that_are_swapped_lead_nowhere(
    theirs: Path, precious: Path, nobody: int, what: str
) -> None:
    """A repair is tried, and taken back, again and again; most tries are refused."""
    before, plan = take(precious), truncation(theirs)
    target = theirs / ".kdump" if what == ".kdump" else theirs
    with pending_swaps(target, precious, nobody):
        for _ in range(TRIES):
            with suppress(KdumpError, OSError):
                apply(plan)
            with suppress(KdumpError, OSError):
                repair = newest_repair(theirs)
                if repair is not None:
                    undo(repair, theirs, theirs.parent, assume_stopped=False)
            assert os.geteuid() == 0
    assert take(precious) == before


def test_an_output_that_is_swapped_leads_nowhere(place: Path, precious: Path, nobody: int) -> None:
    origin = damaged(place / "in")
    home = place / "home"
    (home / "out").mkdir(parents=True)
    give_all(place / "in", nobody)
    give_all(home, nobody)
    before = take(precious)
    with pending_swaps(home / "out", precious, nobody):
        for _ in range(TRIES):
            with (
                suppress(KdumpError, OSError),
                build_directory(home / "out" / "orders-7", origin) as made,
            ):
                made.put(f"{0:020d}.log", [b"content"])
            assert os.geteuid() == 0
    assert take(precious) == before


@pytest.fixture
def world(place: Path, nobody: int) -> World:
    """A directory of user nobody beside a directory of root with the same names in it."""
    home = place / "home"
    home.mkdir()
    LOSSY.write(home)
    old = home / "old"
    old.mkdir()
    CONVERT.write(old)
    (home / "out").mkdir()
    shutil.copytree(home, place / "etc")
    (place / "etc" / "passwd").write_bytes(b"root's")
    give_all(place, 0)
    give_all(home, nobody)
    return World(home, place / "etc")


@dataclass(frozen=True)
class World:
    """What belongs to another user, and what to root."""

    home: Path
    precious: Path

    def swap(self, name: str) -> AbstractContextManager[None]:
        uid = self.home.stat().st_uid
        return pending_swaps(self.home / name, self.precious / name, uid, PAUSE_SECONDS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "swapped",
    ["data/orders-0/.kdump", "data/orders-0", pytest.param("data", marks=pytest.mark.nightly)],
)
def test_repairs_and_undos_amid_swaps_change_nothing_of_others(world: World, swapped: str) -> None:
    partition = LOSSY.partition(world.home)
    command = confirmed(partition)
    back = ["undo", "--apply", str(partition)]
    with world.swap(swapped):
        codes = tries(world, lambda number: back if number % 2 else command, 2 * TRIES // 3)
    assert codes[OK] and codes[REFUSED]


@pytest.mark.slow
@pytest.mark.parametrize(
    "swapped", ["old/data/orders-0", pytest.param("old/data", marks=pytest.mark.nightly)]
)
def test_conversions_amid_swaps_change_nothing_of_others(world: World, swapped: str) -> None:
    argv = CONVERT.argv(world.home / "old", "--apply")
    back = ["undo", "--apply", str(CONVERT.partition(world.home / "old"))]
    with world.swap(swapped):
        codes = tries(world, lambda number: back if number % 2 else argv, TRIES // 2)
    assert codes[OK] and codes[REFUSED]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "count"),
    [
        (["salvage"], TRIES),
        pytest.param(["convert-v0-v2", "--jobs", "1"], TRIES // 2, marks=pytest.mark.nightly),
    ],
    ids=["salvage", "convert"],
)
def test_new_directories_amid_swaps_stand_nowhere_else(
    world: World, command: list[str], count: int
) -> None:
    origin = CONVERT.partition(world.home / "old")
    out = world.home / "out"

    def argv(number: int) -> list[str]:
        return [*command, "--output", str(out / str(number)), str(origin)]

    with world.swap("out"):
        codes = tries(world, argv, count)
    assert codes[OK] + codes[PROBLEMS] and codes[REFUSED]


@pytest.mark.slow
def test_exports_amid_swaps_stand_nowhere_else(world: World) -> None:
    origin, out, before = LOSSY.partition(world.home), world.home / "out", take(world.precious)
    ended = 0
    with world.swap("out"):
        for number in range(TRIES):
            with suppress(KdumpError):
                export_to(out / str(number), origin)
                ended += 1
            assert os.geteuid() == 0
    assert take(world.precious) == before
    assert 0 < ended < TRIES


def tries(world: World, argv: Callable[[int], list[str]], count: int) -> Counter[int]:
    """Run commands again and again; returns how often they ended with which code."""
    before, codes = take(world.precious), Counter[int]()
    for number in range(count):
        ran = run(argv(number))
        assert "Traceback" not in ran.err, ran
        assert ran.code in (OK, USAGE, PROBLEMS, INCOMPLETE, REFUSED), ran
        codes[ran.code] += 1
    assert take(world.precious) == before
    return codes


# --- system calls

#: Calls by which a process changes names, owners, modes or contents, or that say whose rights it
#: has.
TRACED = (
    "openat,renameat,renameat2,?rename,unlinkat,?unlink,mkdirat,?mkdir,linkat,?link,symlinkat,"
    "?symlink,?rmdir,mknodat,?mknod,fchown,fchownat,?chown,?lchown,fchmod,fchmodat,?chmod,fsetxattr,"
    "setxattr,lsetxattr,fremovexattr,utimensat,ftruncate,truncate,fallocate,write,pwrite64,writev,"
    "pwritev,copy_file_range,sendfile,ioctl,setresuid"
)
CALL = re.compile(r"(\d+) +(\w+)\((.*)")
#: What is written goes to descriptors that were opened with the rights of then.
WRITING = ("write", "pwrite64", "writev", "pwritev", "copy_file_range", "sendfile", "ioctl")
AT = re.compile(r'(?:AT_FDCWD|\d+)<([^>]*)>, "([^"]*)"')
OPENED = re.compile(r"\d+<([^>]*)>")
#: Pipes, sockets, and what is in memory alone.
NO_FILE = re.compile(r"(?!/)|/memfd:|/dev/null$")


def apply_lossy(world: World) -> list[str]:
    return confirmed(LOSSY.partition(world.home))


def undo_lossy(world: World) -> list[str]:
    assert run(apply_lossy(world)).code == OK
    return ["undo", "--apply", str(LOSSY.partition(world.home))]


def resume_lossy(world: World) -> list[str]:
    plan = truncation(LOSSY.partition(world.home))
    interrupt(plan)
    return argv(plan.partition, "--confirm", plan.id)


def discard_lossy(world: World) -> list[str]:
    partition = LOSSY.partition(world.home)
    assert run(apply_lossy(world)).code == OK
    (folder,) = (partition / ".kdump").iterdir()
    return ["undo", str(partition), "--plan", folder.name, "--discard"]


def resume_undo(world: World) -> list[str]:
    plan = truncation(LOSSY.partition(world.home))
    apply(plan)
    with failing_at("pwrite"), pytest.raises(Unfinished):
        undone(plan.partition, plan)
    return ["undo", "--apply", str(plan.partition)]


def rewrite(world: World) -> list[str]:
    (world.home / "data" / POINT).write_bytes(b"0\n9\n")
    return ["reindex", "--apply", str(LOSSY.log_directory(world.home))]


def undo_rewrite(world: World) -> list[str]:
    assert run(rewrite(world)).code == OK
    return ["undo", "--apply", str(LOSSY.log_directory(world.home))]


def convert(world: World) -> list[str]:
    return CONVERT.argv(world.home / "old", "--apply")


def convert_to(world: World) -> list[str]:
    origin, to = CONVERT.partition(world.home / "old"), world.home / "out" / "new"
    return ["convert-v0-v2", "--jobs", "1", "--output", str(to), str(origin)]


def salvage_to(world: World) -> list[str]:
    origin, to = LOSSY.partition(world.home), world.home / "out" / "new"
    return ["salvage", "--output", str(to), str(origin)]


@pytest.mark.strace
@pytest.mark.parametrize(
    ("prepare", "least"),
    [
        (apply_lossy, 40),
        (undo_lossy, 20),
        (resume_lossy, 20),
        (resume_undo, 20),
        (discard_lossy, 5),
        (rewrite, 20),
        (undo_rewrite, 10),
        (convert, 40),
        (convert_to, 20),
        (salvage_to, 20),
    ],
)
def test_every_change_is_made_with_the_rights_of_the_owner(
    world: World, tmp_path: Path, prepare: Callable[[World], list[str]], least: int
) -> None:
    command, log = prepare(world), tmp_path / "strace"
    traced = ["strace", "-f", "-qq", "-y", "-s", "256", "-o", str(log), "-e", f"trace={TRACED}"]
    driver = [
        sys.executable,
        "-c",
        "import sys, kdump.cli.main as m; from kdump.storage import liveness;"
        "liveness._open_files = lambda *_: iter(()); sys.exit(m.main(sys.argv[1:]))",
    ]
    search = os.pathsep.join(entry for entry in sys.path if entry)
    ran = subprocess.run(
        [*traced, *driver, *command],
        env={**os.environ, "PYTHONPATH": search, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode in (OK, PROBLEMS), ran.stderr
    count, wrong = judged(log.read_text(), world)
    assert count > least
    assert wrong == []


def judged(log: str, world: World) -> tuple[int, list[str]]:
    """How many paths below the home of the owner a run has changed, and each call that went wrong.

    Wrong are changes with other rights than those of the owner, and all elsewhere.
    """
    owner, home = world.home.stat().st_uid, f"{world.home}/"
    uids: dict[str, int] = {}
    main, count, wrong = "", 0, []
    for line in log.splitlines():
        call = CALL.match(line)
        if call is None:  # the rest of a call that was begun above, a signal or an end
            continue
        process, name, rest = call.groups()
        main = main or process
        # A forked worker has the rights that its parent had.
        uids.setdefault(process, uids.get(main, 0))
        if name == "setresuid":
            if match := re.match(r"(?:-1|\d+), (\d+)", rest):
                uids[process] = int(match[1])
            continue
        paths = [path for path in changed(name, rest) if not NO_FILE.match(path)]
        count += len(paths)
        there = all(path.startswith(home) for path in paths)
        if paths and not (there and (name in WRITING or uids[process] == owner)):
            wrong.append(line)
    return count, wrong


def changed(name: str, rest: str) -> list[str]:
    """The paths that a call changes; it has the arguments and the result ``rest``."""
    arguments = rest.rpartition(" = ")[0] or rest
    if name == "ioctl" and "FICLONE" not in arguments:
        return []
    if name in WRITING:
        opened = OPENED.findall(arguments)
        return opened[-1:] if name == "copy_file_range" else opened[:1]
    if name == "openat" and not re.search("O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", arguments):
        return []
    at = [os.path.join(*pair) for pair in AT.findall(arguments)]
    return at or OPENED.findall(arguments)[:1] or re.findall(r'"([^"]*)"', arguments)


def test_calls_are_judged_by_what_they_write_and_as_whom(place: Path) -> None:
    world = World(place, place)
    owner, other = place.stat().st_uid, place.stat().st_uid + 1
    good = [
        f'7 openat(3<{place}/data>, "a", O_RDWR|O_CREAT, 0600) = 4<{place}/data/a>',
        f'7 write(4<{place}/data/a>, "x", 1) = 1',
        f"7 copy_file_range(5</etc/x>, [0], 4<{place}/data/a>, NULL, 9, 0) = 9",
        '7 write(1<pipe:[77]>, "x", 1) = 1',
        '7 openat(AT_FDCWD</>, "/etc/passwd", O_RDONLY) = 5</etc/passwd>',
    ]
    bad = [
        '7 openat(AT_FDCWD</>, "/etc/passwd", O_RDWR|O_CLOEXEC) = 5</etc/passwd>',
        '7 pwrite64(5</etc/passwd>, "x", 1, 0) = 1',
        "7 ioctl(5</etc/passwd>, BTRFS_IOC_CLONE or FICLONE, 4) = 0",
        f"7 copy_file_range(4<{place}/data/a>, [0], 5</etc/x>, NULL, 9, 0) = 9",
        "7 fchown(5</etc/passwd>, 1, 1) = 0",
        f'7 renameat(3<{place}/data>, "a", 6</etc>, "passwd") = 0',
        '7 mkdir("/etc/x", 0700) = 0',
    ]
    as_owner, as_other = (f"7 setresuid(-1, {uid}, -1) = 0" for uid in (owner, other))
    assert judged("\n".join([as_owner, *good]), world) == (3, [])
    assert judged("\n".join([as_owner, *bad]), world)[1] == bad
    assert judged("\n".join([as_other, good[0], good[1]]), world)[1] == [good[0]]
