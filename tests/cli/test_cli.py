"""The command as a whole: exit codes, signals, closed pipes, and what is imported when."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import kdump.audit.targets.listing
from kdump.cli.main import cli, main
from kdump.errors import LimitError, Refused, SourceError, UsageError
from kdump.format.kernel import headers as _headers
from kdump.ui import exits
from kdump.ui.version import FORECAST, READ
from support.damaged import RECIPES

#: What the scripts do.
PROCESS = "import sys; from kdump.__main__ import main; sys.exit(main())"
RUN = "import sys; from kdump.cli.main import main; sys.exit(main())"
#: The same, with workers that take their time.
SLOW = f"""
import time, kdump.audit.run.prescan
kdump.audit.run.prescan.survey = lambda *_, **__: time.sleep(60)
{RUN}
"""
#: Ctrl-C at the import whose number is the first argument, counted from the first of kdump.cli.
INTERRUPTED = """
import signal, sys
class Finder:
    left = None
    def find_spec(self, name, path, target=None):
        if self.left is None and name == "kdump.cli":
            self.left = int(sys.argv.pop(1))
        if self.left is not None:
            self.left -= 1
            if self.left == 0:
                signal.raise_signal(signal.SIGINT)
finder = Finder()
sys.meta_path.insert(0, finder)
from kdump.__main__ import main
code = main()
if finder.left > 0:
    print(f"{finder.left} imports left", file=sys.stderr)
sys.exit(code)
"""
PACKAGE = os.fsencode(Path(kdump.__file__).parent) + b"/"
#: More than the imports of any command.
_NO_IMPORT = 100_000


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    return RECIPES[0].write(tmp_path)


def start(
    *arguments: str | Path, code: str = RUN, stdout: int = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        preexec_fn=heed_interrupts,
    )


def heed_interrupts() -> None:
    """Undo what a shell does to tests that it runs in the background: they ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_the_names_of_all_commands() -> None:
    assert main(["--help"]) == exits.OK
    assert cli.list_commands(cli.make_context("kdump", ["verify"])) == [
        "check",
        "compare",
        "convert-v0-v2",
        "dump",
        "explain",
        "export",
        "groups",
        "heal",
        "help",
        "manifest",
        "metadata",
        "move",
        "next-start",
        "quorum",
        "reindex",
        "repair",
        "salvage",
        "scrub",
        "space",
        "transactions",
        "trim",
        "truncate-to-valid",
        "undo",
        "verify",
    ]


def test_help_and_version_go_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == exits.OK
    printed = capsys.readouterr()
    kind = "compiled" if _headers.COMPILED else "plain"
    first, second = printed.out.splitlines()
    assert re.fullmatch(rf"kdump \S+ \(kernel {kind}\)", first)
    assert second == f"reads files of Kafka {READ}, forecasts startups of {FORECAST}"
    assert main(["verify", "-h"]) == exits.OK
    printed = capsys.readouterr()
    assert printed.out.startswith("Usage: kdump verify [OPTIONS] [PATH...]\n")
    assert printed.err == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete(shell: str, sound: Path) -> None:
    def completed(words: str, instruction: str = f"{shell}_complete") -> str:
        said = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        if shell == "fish":  # whose word is the one that is being typed
            said["COMP_CWORD"] = words.rpartition(" ")[2]
        process = subprocess.run(
            [sys.executable, "-c", RUN],
            env={**os.environ, **said, "_KDUMP_COMPLETE": instruction},
            capture_output=True,
            check=True,
            text=True,
        )
        return process.stdout

    assert "verify" in completed("kdump ve")
    assert "explain" not in completed("kdump ve")
    assert "--format" in completed("kdump dump --fo")
    assert "torn-tail-sealed" in completed("kdump explain torn-t")
    assert "dir" in completed(f"kdump verify {sound}") or "file" in completed(
        f"kdump verify {sound}"
    )
    assert f"_KDUMP_COMPLETE={shell}_complete" in completed("", f"{shell}_source")


def test_help_imports_no_library_but_click() -> None:
    code = (
        "import sys; from kdump.cli.main import main; main(['--help']); "
        "print(*sys.modules, file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    imported = {module.partition(".")[0] for module in run.stderr.split()}
    heavy = {"rich", "crc32c", "lz4", "snappy", "zstandard", "isal", "cython", "hypothesis"}
    assert imported & heavy == set()
    layers = {name.split(".")[1] for name in run.stderr.split() if name.startswith("kdump.")}
    assert layers == {"cli", "commands", "errors", "program", "ui", "values"}


@pytest.mark.parametrize("name", ["kdump", "kafka-kdump"])
def test_advice_has_the_name_of_the_call(name: str, lossy: Path) -> None:
    code = "import sys; from kdump.cli.main import main; sys.argv[0] = sys.argv.pop(1); main()"
    command = [sys.executable, "-c", code, f"/usr/bin/{name}"]
    text = subprocess.run([*command, "verify", lossy], capture_output=True, text=True).stdout
    assert re.search(rf"^meaning +{name} explain ", text, re.M)
    assert re.search(rf"^ +{name} salvage ", text, re.M)
    usage = subprocess.run([*command, "verify", "--help"], capture_output=True, text=True).stdout
    assert usage.startswith(f"Usage: {name} verify [OPTIONS]")


@pytest.mark.parametrize(
    "arguments", [[], ["nonsense"], ["verify"], ["verify", "--jobs", "0", "x"], ["verify", "-x"]]
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == exits.USAGE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Usage: kdump" in printed.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("asked for \x1b nonsense"), exits.USAGE),
        (SourceError("a\x1b", "a\x1b: cannot be read"), exits.INCOMPLETE),
        (LimitError("too large"), exits.INCOMPLETE),
        (Refused("expected another owner"), exits.REFUSED),
        (OSError(28, "No space left on device"), exits.INCOMPLETE),
        (OSError(24, "Too many open files"), exits.INCOMPLETE),
        (KeyboardInterrupt(), exits.INTERRUPTED),
        (BrokenPipeError(32, "Broken pipe"), exits.CLOSED_PIPE),
    ],
)
def test_an_error_has_its_exit_code_and_no_traceback(
    error: BaseException,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(kdump.audit.targets.listing, "open_roots", fail)
    assert main(["verify", "x"]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Traceback" not in printed.err
    assert "\x1b" not in printed.err


@pytest.mark.parametrize("error", [ZeroDivisionError("on purpose"), OSError(9, "on purpose")])
def test_a_bug_says_so(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(kdump.audit.targets.listing, "open_roots", fail)
    assert main(["verify", "x"]) == exits.BUG
    printed = capsys.readouterr().err
    assert printed.startswith("Traceback")
    assert "on purpose" in printed
    assert printed.splitlines()[-1].startswith("kdump: this is a bug in kdump")


def test_the_handler_of_sigterm_is_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert main(["--version"]) == exits.OK
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, exits.INTERRUPTED), (signal.SIGTERM, exits.TERMINATED)],
)
def test_a_signal_ends_a_run_with_a_report(number: int, code: int, sound: Path) -> None:
    run = start("verify", "--format", "json", "--jobs", "2", sound, code=SLOW)
    assert run.stdout is not None
    assert json.loads(run.stdout.readline())["type"] == "header"
    children = Path(f"/proc/{run.pid}/task/{run.pid}/children")
    while not (workers := children.read_text().split()):
        pass
    run.send_signal(number)
    out, err = run.communicate(timeout=120)
    assert run.returncode == code
    assert err.strip() == b""
    summary = json.loads(out.splitlines()[-1])
    assert summary["type"] == "summary"
    assert (summary["exit"], summary["partitions"], summary["partitions_total"]) == (code, 0, 1)
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


def imports(*arguments: str | Path) -> int:
    """The number of imports of a run."""
    run = start(str(_NO_IMPORT), *arguments, code=INTERRUPTED)
    _, err = run.communicate(timeout=120)
    assert run.returncode == exits.OK
    return _NO_IMPORT - int(err.split()[0])


def interrupt(number: int, *arguments: str | Path) -> None:
    """Interrupt a run at an import, and check how it ends."""
    run = start(str(number), *arguments, code=INTERRUPTED)
    _, err = run.communicate(timeout=120)
    assert (run.returncode, err.strip()) == (exits.INTERRUPTED, b""), number


def test_nothing_is_imported_before_an_interrupt_is_heeded() -> None:
    code = "import sys; before = set(sys.modules); import kdump.__main__; "
    code += "print(*sorted(set(sys.modules) - before))"
    out, err = start(code=code).communicate(timeout=120)
    assert (out.split(), err) == ([b"kdump", b"kdump.__main__"], b"")


def test_an_interrupt_at_any_time_leaves_no_traceback_of_kdump() -> None:
    began = time.monotonic()
    start("--version", code=PROCESS).communicate(timeout=120)
    whole = time.monotonic() - began
    chance = random.Random(45)
    for _ in range(20):
        run = start("--version", code=PROCESS)
        time.sleep(chance.uniform(0, whole))
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=120)
        assert PACKAGE not in err, err


@pytest.mark.parametrize(("cause", "code"), [(KeyboardInterrupt, 130), (ValueError, 1)])
def test_an_interrupt_amid_the_definition_of_a_class_ends_in_silence(
    cause: type[BaseException],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Python 3.11 calls ``__set_name__`` there, and makes a RuntimeError of what it raises."""

    def interrupted(*_: object, **__: object) -> None:
        raise RuntimeError("Error calling __set_name__") from cause()

    monkeypatch.setattr(cli, "main", interrupted)
    assert main(["--version"]) == code
    assert ("bug in kdump" in capsys.readouterr().err) == (code == 1)


def test_an_interrupt_at_any_import_ends_in_silence(sound: Path) -> None:
    arguments = ["verify", str(sound), "--jobs", "1"]
    last = imports(*arguments)
    rng = random.Random(45)
    for number in (1, 2, *rng.sample(range(3, last), 4)):
        interrupt(number, *arguments)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "arguments",
    [["verify", "--jobs", "1", "PATH"], ["--help"], ["dump", "PATH"], ["explain", "torn-tail"]],
)
def test_an_interrupt_at_every_fourth_import_ends_in_silence(
    arguments: list[str], sound: Path
) -> None:
    arguments = [str(sound) if word == "PATH" else word for word in arguments]
    for number in range(1, imports(*arguments), 4):
        interrupt(number, *arguments)


@pytest.mark.parametrize("form", ["text", "json"])
def test_an_interrupted_report_says_so(form: str, sound: Path) -> None:
    run = start("verify", "--format", form, "--progress", "line", sound, code=SLOW)
    children = Path(f"/proc/{run.pid}/task/{run.pid}/children")
    while not children.read_text():
        assert run.poll() is None
    run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=120)
    assert run.returncode == exits.INTERRUPTED
    assert (b"interrupted: 0 OK, 1 not checked" in out) == (form == "text")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["explain", "--list"], ["verify", "PATH"]]
)
def test_a_closed_pipe_ends_in_silence(arguments: list[str], sound: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    arguments = [str(sound) if word == "PATH" else word for word in arguments]
    run = start(*arguments, stdout=write)
    os.close(write)
    _, err = run.communicate(timeout=120)
    assert (run.returncode, err) == (exits.CLOSED_PIPE, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", [["--version"], ["verify", "PATH"]])
def test_a_full_disk_is_told(arguments: list[str], sound: Path) -> None:
    arguments = [str(sound) if word == "PATH" else word for word in arguments]
    with open("/dev/full", "wb") as full:
        run = start(*arguments, stdout=full.fileno())
        _, err = run.communicate(timeout=120)
    assert run.returncode == exits.INCOMPLETE
    assert b"No space left on device" in err
    assert b"Traceback" not in err


def test_closed_standard_output_is_survived(sound: Path) -> None:
    run = subprocess.run(
        ["/bin/sh", "-c", 'exec "$0" -c "$1" verify "$2" >&-', sys.executable, RUN, sound],
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert run.returncode == exits.OK
    assert b"Traceback" not in run.stderr


def test_every_exit_code_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == exits.OK
    help_text = " ".join(capsys.readouterr().out.split())
    for code in (0, 1, 2, 4, 5, 6, 130, 143, 141):
        assert re.search(rf"\b{code}\b", help_text)


@pytest.mark.parametrize(
    "command", ["salvage", "reindex", "truncate-to-valid", "convert-v0-v2", "export"]
)
def test_help_says_what_becomes_of_a_transaction_whose_end_is_lost(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["help", command]) == exits.OK
    assert "(transaction-end-lost)" in " ".join(capsys.readouterr().out.split())


def test_it_runs_as_a_module(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "kdump", "verify", tmp_path / "gone"],
        cwd=tmp_path,  # not the checkout
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == exits.INCOMPLETE
    assert "gone: cannot be read: No such file or directory" in ran.stderr
    assert ran.stdout == ""
