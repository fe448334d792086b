"""Properties, meta.properties, partition.metadata, quorum-state and the clean-shutdown marker."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdump.errors import DecodeError
from kdump.format.properties import (
    CleanShutdownMarker,
    FatalMetadataError,
    MetaProperties,
    PartitionMetadata,
    QuorumState,
    decode_clean_shutdown,
    decode_meta_properties,
    decode_partition_metadata,
    decode_quorum_state,
    parse_properties,
)
from support import forge
from support.fixtures_loader import ROOT

DIRECTORY_ID = "Zx3rO8V1QyCqz-_7aB4mXw"


# --- java.util.Properties


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("", {}),
        ("a=b", {"a": "b"}),
        ("a=b\nc=d\r\ne=f\rg=h", {"a": "b", "c": "d", "e": "f", "g": "h"}),
        ("#a=b\n  ! c=d\n\n \t\n", {}),
        ("a:b\nc d\ne\tf\n", {"a": "b", "c": "d", "e": "f"}),
        ("  a  =  b c  ", {"a": "b c  "}),
        ("a = = b", {"a": "= b"}),
        ("a : = b", {"a": "= b"}),
        ("alone", {"alone": ""}),
        ("=value", {"": "value"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b\\\n    c", {"a": "bc"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),
        ("a=b\\\n#c", {"a": "b#c"}),
        ("# comment \\\na=b", {"a": "b"}),
        ("a=b\\", {"a": "b"}),
        ("\\\n#a=b\n\\\nc=d", {"c": "d"}),
        ("a\\=b\\:c\\ d=e", {"a=b:c d": "e"}),
        (r"a=\t\n\r\f\q\\", {"a": "\t\n\r\fq\\"}),
        (r"a=\u0041\u00e9", {"a": "Aé"}),
        (r"a=\ud83d\ude00", {"a": "\N{GRINNING FACE}"}),
        ("a=\xe9", {"a": "é"}),
        ("log.dirs=/a,/b\nC\\:\\\\x=y", {"log.dirs": "/a,/b", "C:\\x": "y"}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, pairs: dict[str, str]) -> None:
    assert parse_properties(text.encode("iso-8859-1")) == pairs


def test_a_line_continued_without_end_stays_linear() -> None:
    started = time.process_time()
    pairs = parse_properties(b"a=" + b"b\\\n" * 2_000_000)
    assert pairs == {"a": "b" * 2_000_000}
    assert time.process_time() - started < 20


@pytest.mark.parametrize("text", [r"a=\u", r"a=\u12", r"a=\u12g4", r"\u00=1"])
def test_a_short_unicode_escape_is_refused(text: str) -> None:
    with pytest.raises(DecodeError, match="four hexadecimal digits"):
        parse_properties(text.encode())


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=20)))
def test_properties_round_trip(pairs: dict[str, str]) -> None:
    def escaped(text: str) -> str:
        units = text.encode("utf-16-be")
        return "".join(
            f"\\u{int.from_bytes(units[at : at + 2], 'big'):04X}" for at in range(0, len(units), 2)
        )

    text = "".join(f"{escaped(key)}={escaped(value)}\n" for key, value in pairs.items())
    assert parse_properties(text.encode()) == pairs


# --- meta.properties


def test_meta_properties_of_version_0() -> None:
    data = b"#\n#Sat Nov 21 2026\nbroker.id=3\nversion=0\ncluster.id=abc\n"
    assert decode_meta_properties(data) == MetaProperties(0, "abc", 3, None)
    assert decode_meta_properties(b"") == MetaProperties(0, None, None, None)


def test_meta_properties_of_version_1() -> None:
    data = f"version = 1\nnode.id=1\ncluster.id=x\ndirectory.id={DIRECTORY_ID}\n".encode()
    assert decode_meta_properties(data) == MetaProperties(1, "x", 1, DIRECTORY_ID)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"version=2", "expected version 0 or 1, found 2"),
        (b"version=one", "expected an integer of 32 bits in version, found 'one'"),
        (b"version=1\ncluster.id=x", "version 1 has no node.id"),
        (b"version=1\nnode.id=1", "version 1 has no cluster.id"),
        (b"broker.id=x", "expected an integer of 32 bits in broker.id, found 'x'"),
        (b"broker.id=2147483648", "expected an integer of 32 bits in broker.id"),
        (b"directory.id=short", "expected a uuid"),
    ],
)
def test_bad_meta_properties(data: bytes, message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        decode_meta_properties(data)


# --- partition.metadata


@pytest.mark.parametrize(
    "data",
    [
        forge.partition_metadata(DIRECTORY_ID),
        forge.partition_metadata(DIRECTORY_ID) + b"\n",
        f"version:\t0\r\ntopic_id:  {DIRECTORY_ID}==\nmore".encode(),
        f"anything: 0\nelse: {DIRECTORY_ID}".encode(),
    ],
)
def test_partition_metadata(data: bytes) -> None:
    assert decode_partition_metadata(data) == PartitionMetadata(0, DIRECTORY_ID)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\n", "line 1: expected 'name: value', found ''"),
        (b"version: 0\n\n", "line 2: expected 'name: value', found ''"),
        (b"version:0\ntopic_id: x", "line 1"),
        (b"version: 0\ntopic_id: ", "line 2"),
        (b"version: -1\ntopic_id: x", "expected version 0 or above, found -1"),
        (b"version: x\ntopic_id: x", "expected an integer of 32 bits in version"),
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "found the zero uuid"),
        (b"\xff", "expected UTF-8, found byte 0xff at 0"),
    ],
)
def test_partition_metadata_that_takes_the_directory_offline(data: bytes, message: str) -> None:
    with pytest.raises(DecodeError, match=message) as caught:
        decode_partition_metadata(data)
    assert not isinstance(caught.value, FatalMetadataError)


@pytest.mark.parametrize(("data", "line"), [(b"", 1), (b"version: 0", 2), (b"version: 0\n", 2)])
def test_a_missing_line_stops_the_broker(data: bytes, line: int) -> None:
    with pytest.raises(FatalMetadataError, match=f"line {line}: .* found no such line"):
        decode_partition_metadata(data)


@pytest.mark.parametrize("topic_id", ["abc", DIRECTORY_ID + "A", "!" * 22])
def test_a_topic_id_that_stops_the_broker(topic_id: str) -> None:
    with pytest.raises(FatalMetadataError, match=r"partition\.metadata: expected a uuid"):
        decode_partition_metadata(forge.partition_metadata(topic_id))


@pytest.mark.parametrize(("data", "line"), [(b"", 1), (b"version: 0", 2), (b"version: 0\n", 2)])
def test_a_missing_line_that_stops_the_broker(data: bytes, line: int) -> None:
    with pytest.raises(FatalMetadataError, match=f"line {line}: expected .*, found no such line"):
        decode_partition_metadata(data)


# --- quorum-state


def test_quorum_state_of_version_0() -> None:
    data = (
        b'{"clusterId":"","leaderId":1,"leaderEpoch":5,"votedId":-1,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
    )
    assert decode_quorum_state(data) == QuorumState(0, 1, 5, -1, None, "", 0, (1, 2))
    null = data.replace(b'[{"voterId":1},{"voterId":2}]', b"null")
    assert decode_quorum_state(null).current_voters == ()


def test_quorum_state_of_version_1_is_its_first_line() -> None:
    data = (
        f'{{"leaderId":1,"leaderEpoch":5,"votedId":-1,"votedDirectoryId":"{DIRECTORY_ID}",'
        '"data_version":1}\nnot read'
    ).encode()
    assert decode_quorum_state(data) == QuorumState(1, 1, 5, -1, DIRECTORY_ID, None, None, ())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected JSON"),
        (b"[]", "expected a JSON object, found"),
        (b"{}", "expected an integer in data_version, found nothing"),
        (b'{"data_version":2}', "expected data_version 0 or 1, found 2"),
        (b'{"data_version":"1"}', "expected an integer in data_version, found str"),
        (b'{"data_version":true}', "found bool"),
        (b'{"data_version":1,"leaderId":1,"leaderEpoch":1,"votedId":1}', "a string in votedDir"),
        (
            b'{"data_version":1,"leaderId":1,"leaderEpoch":1,"votedId":1,"votedDirectoryId":"x"}',
            "a uuid in votedDir",
        ),
        (
            b'{"data_version":0,"leaderId":1,"leaderEpoch":1,"votedId":1,"votedDirectoryId":"x"}',
            "a uuid in votedDir",
        ),
        (b'{"data_version":1,"leaderId":-2}', "an integer from -1 on in leaderId, found -2"),
        (b'{"data_version":1,"leaderId":2147483648}', "in leaderId, found 2147483648"),
        (
            b'{"data_version":1,"leaderId":-1,"leaderEpoch":1,"votedId":-5}',
            "an integer from -1 on in votedId, found -5",
        ),
        (b"[" * 100_000, "expected JSON"),
    ],
)
def test_bad_quorum_state(data: bytes, message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        decode_quorum_state(data)


@pytest.mark.parametrize("voters", ["5", '"x"', "[1]", "[{}]", '[{"voterId":"x"}]', '{"a":1}'])
def test_bad_voters(voters: str) -> None:
    data = (
        '{"clusterId":"","leaderId":1,"leaderEpoch":5,"votedId":-1,"appliedOffset":0,'
        f'"currentVoters":{voters},"data_version":0}}'
    )
    with pytest.raises(DecodeError, match="expected a list of voters"):
        decode_quorum_state(data.encode())


# --- .kafka_cleanshutdown


def test_the_clean_shutdown_marker() -> None:
    assert decode_clean_shutdown(b"") == CleanShutdownMarker(None)
    marker = decode_clean_shutdown(b'{"version":0,"brokerEpoch":12,"later":[]}')
    assert marker == CleanShutdownMarker(12)


@pytest.mark.parametrize("data", [b"\xff", b"{", b"7", b"{}", b'{"brokerEpoch":null}'])
def test_an_unreadable_marker(data: bytes) -> None:
    with pytest.raises(DecodeError, match=r"\.kafka_cleanshutdown: expected"):
        decode_clean_shutdown(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["data_version", "leaderId", "voterId"]), inner)
    ),
)


@settings(deadline=None)
@given(
    st.binary(max_size=100)
    | st.text("\\u019=: \n\r#abt", max_size=60).map(str.encode)
    | JSON.map(lambda value: json.dumps(value).encode())
)
def test_any_bytes_give_a_value_or_decode_error(data: bytes) -> None:
    for decode in (
        parse_properties,
        decode_meta_properties,
        decode_partition_metadata,
        decode_quorum_state,
        decode_clean_shutdown,
    ):
        try:
            assert decode(data) is not None
        except DecodeError as error:
            assert "expected" in str(error) or "has no" in str(error)


def test_what_brokers_wrote() -> None:
    directories = [path.parent for path in ROOT.rglob("meta.properties")]
    assert directories
    for directory in directories:
        meta = decode_meta_properties((directory / "meta.properties").read_bytes())
        quorum = directory / "__cluster_metadata-0" / "quorum-state"
        kraft = quorum.exists()
        assert meta.version == int(kraft)
        assert bool(meta.cluster_id) == (directory.parent.name not in ("0.10.2.2", "1.1.1"))
        assert bool(meta.directory_id) == kraft
        if kraft:
            state = decode_quorum_state(quorum.read_bytes())
            assert state.current_voters == (state.leader_id,)
            # Of three brokers none is the controller.
            assert (state.leader_id == meta.node_id) == (directory.name not in ("1", "2", "3"))
        for path in directory.glob("*/partition.metadata"):
            assert len(decode_partition_metadata(path.read_bytes()).topic_id) == 22, path
        marker = directory / ".kafka_cleanshutdown"
        if marker.exists():
            content = marker.read_bytes()
            assert bool(content) == kraft
            if content:
                assert decode_clean_shutdown(content).broker_epoch is not None
