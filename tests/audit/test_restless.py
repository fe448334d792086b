"""``kdump verify`` on files that change under it: no signal reaches the user, no false alarm."""

from __future__ import annotations

import faulthandler
import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kdump.audit.survey.survey
import kdump.audit.targets.target
from kdump.audit.run import verification, verify
from kdump.audit.survey.survey import Survey
from kdump.cli.main import main
from kdump.storage import access, source, workers
from kdump.storage import walk as storage_walk
from kdump.storage.liveness import BrokerState, Liveness
from kdump.ui import exits
from support.damaged import RECIPES
from support.restless import changing

#: What happens to workers whose files change under them.
HAPPENS = ("SIGBUS", "vanished", "shortened")
#: How many times all is verified; after that on, until each of these has happened as often.
_RUNS, _ENOUGH = 200, 10


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What happened to the workers, of ``HAPPENS``, counted by file."""
    counts: Counter[str] = Counter()
    unmapped, survey_of = verify._retry_unmapped, verification.survey_of
    run = workers.run

    def watched(*args: Any, **options: Any) -> Iterator[workers.Result[object, object]]:
        for outcome in run(*args, **options):
            if isinstance(
                outcome.value, workers.WorkerDied
            ):  # of the first pass: it takes no retry
                counts[outcome.value.label] += 1
            yield outcome

    def retry(task: verification.SurveyTask, died: workers.WorkerDied) -> object:
        counts[died.label] += 1
        return unmapped(task, died)

    def note(
        target: kdump.audit.targets.target.Target,
        outcome: workers.Result[verification.SurveyTask, Survey],
    ) -> object:
        if isinstance(outcome.value, Survey):
            for unread in outcome.value.unread:
                truncated = "was truncated during the read" in unread.text
                counts["shortened" if truncated else "vanished"] += 1
        return survey_of(target, outcome)

    monkeypatch.setattr(workers, "run", watched)
    monkeypatch.setattr(verify, "_retry_unmapped", retry)
    for module in (verify, verification):
        monkeypatch.setattr(module, "survey_of", note)
    return counts


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading takes longer than a change, a piece at a time."""
    walk = storage_walk.walk

    def slowly(opened: source.Source, base_offset: int, start: int = 0) -> Iterator[object]:
        for piece in walk(opened, base_offset, start):
            time.sleep(0.001)
            yield piece

    monkeypatch.setattr(access, "WINDOW_BYTES", 1 << 17)
    defaults = source.WindowedFile.__init__.__kwdefaults__ or {}
    monkeypatch.setitem(defaults, "window_bytes", 1 << 17)
    monkeypatch.setattr(kdump.audit.survey.survey, "walk", slowly)


@pytest.mark.nightly
@pytest.mark.usefixtures("slow_disk")
def test_what_is_wrongly_believed_stopped_gives_no_false_alarm(
    seen: Counter[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    (torn,) = [recipe for recipe in RECIPES if recipe.name == "torn-sealed"]
    torn.write(directory)
    believed = Liveness(BrokerState.STOPPED, "as the test says")
    monkeypatch.setattr(kdump.audit.targets.target, "liveness", lambda _: believed)
    faulthandler.disable()  # pytest's would print the last words of workers
    chance, codes = random.Random(_RUNS), Counter[str]()
    with changing(directory, seed=_RUNS):
        done = 0
        # How often a file shrinks between two looks at its map is the machine's to say.
        while done < _RUNS or (done < 20 * _RUNS and min(map(seen.__getitem__, HAPPENS)) < _ENOUGH):
            done += 1
            options = ["--deep"] * chance.randint(0, 1)
            options += ["--limit-rate", "4GB"] * chance.randint(0, 1)  # then nothing is mapped
            options += ["--jobs", str(chance.randint(1, 2))]
            code = main(["verify", *options, "--format", "json", str(directory)])
            printed = capfd.readouterr()
            assert printed.err == ""
            assert code in (exits.PROBLEMS, exits.INCOMPLETE)
            lines = [json.loads(line) for line in printed.out.splitlines()]
            errors = [line for line in lines if line.get("severity") == "error"]
            assert {Path(line["path"]).parent.name for line in errors} == {"torn-sealed-0"}, errors
            assert [line["code"] for line in errors] == ["torn-tail-sealed"]
            codes.update(line["code"] for line in lines if line["type"] == "finding")
    print(f"in {done} runs: {dict(seen)}; findings: {dict(codes)}")
    assert set(seen) == set(HAPPENS)
    assert min(seen.values()) >= _ENOUGH
