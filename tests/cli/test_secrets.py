"""Secrets of a cluster's metadata are in no output of any command, not even in that of ``--data``.

Who asks for records as they are gets them: ``--raw``, and ``--records`` in JSON.
"""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest

from kdump.cli.main import main
from support import forge_metadata as meta
from support.forge import batch, flip, record, write_partition
from support.long_samples import first_of_each
from support.metadata_history import secret_values
from support.reading_commands import READING

SECRET = "PLANTEDmarker"
TOPIC_ID = "b25lLXRvcGljLTEyMzQ1Ng"
RECORDS = [
    meta.topic("orders", TOPIC_ID),
    meta.partition(TOPIC_ID),
    *secret_values(SECRET),
]
AS_THEY_ARE = {"dump-json"}


@pytest.fixture(params=["sound", "damaged"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A log directory whose metadata, and one of whose topics, have a secret."""
    (tmp_path / "meta.properties").write_text(
        "version=1\nnode.id=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\n"
    )
    partition = tmp_path / meta.METADATA
    partition.mkdir()
    content = meta.log(RECORDS)
    batches = [batch(number, [record(SECRET.encode(), SECRET.encode())]) for number in range(3)]
    if request.param == "damaged":
        content = content[:-1]
        batches[1] = flip(batches[1], 70)
    (tmp_path / meta.segment_name()).write_bytes(content)
    write_partition(tmp_path, "orders", 0, {0: batches})
    return tmp_path


@pytest.mark.parametrize(
    "name",
    first_of_each([name for name in READING if name not in AS_THEY_ARE], lambda n: READING[n][0]),
)
def test_no_secret_is_printed(
    name: str, directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = main([*READING[name], str(directory)])
    out, err = capfd.readouterr()
    assert out or name == "verify-warnings" or code in (2, 5)
    if name != "dump-data":  # the topic's records are asked for
        assert SECRET not in out + err
    assert b64encode(SECRET.encode()).decode().rstrip("=") not in out + err


@pytest.mark.parametrize("options", [["--data"], ["--decode", "--records", "--format", "json"]])
def test_decoded_metadata_has_no_secret(
    options: list[str], directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    partition = directory / meta.METADATA
    main(["dump", *options, str(partition)])
    out, err = capfd.readouterr()
    assert SECRET not in out + err
    assert out.count("redacted") >= 3
    main(["dump", "--data", "--raw", str(partition)])
    assert SECRET in capfd.readouterr().out
