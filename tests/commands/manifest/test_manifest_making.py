"""A manifest of directories that change while it is made."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kdump.commands.manifest import making
from kdump.storage.logdir import list_partition
from kdump.storage.manifests.path import paths_in
from support import forge, manifests


@pytest.fixture
def vanishing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log directory whose partition t-1 is deleted as soon as it is to be listed."""
    top = tmp_path / "data"
    for number in range(2):
        batches = [forge.batch(0, [forge.record()] * 3)]
        forge.write_partition(top, "t", number, {0: batches})
    (top / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")

    def delete_first(path: Path) -> object:
        if path.name == "t-1":
            shutil.rmtree(path, ignore_errors=True)
        return list_partition(path)

    monkeypatch.setattr(making, "list_partition", delete_first)
    return top


def test_a_partition_that_a_broker_deletes_is_not_in_it(tmp_path: Path, vanishing: Path) -> None:
    made = manifests.make(tmp_path / "x.kdm", vanishing)
    assert (made.partitions, made.unread) == (1, ())
    (root,) = paths_in(tmp_path / "x.kdm")
    assert (root / "t-0").is_dir()
    assert not (root / "t-1").exists()


def test_a_partition_that_was_named_is_missed(tmp_path: Path, vanishing: Path) -> None:
    made = manifests.make(tmp_path / "x.kdm", vanishing / "t-1")
    (text,) = made.unread
    assert "t-1: cannot be read: No such file or directory" in text
