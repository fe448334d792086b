"""Reports as HTML: the sentences of the text, and pictures; nothing in them runs or fetches."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zlib
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kdump.ui.html.page import HtmlPage
from kdump.ui.html.pictures import Bar, Kind, Part, picture
from support.crashing.running import run
from support.fixtures_loader import ROOT, copy_fixture
from support.forge import flip
from support.resealing import places

pytestmark = pytest.mark.once

BROKERS = ROOT / "brokers/4.3.1"
#: A name that a directory can have, and that a browser would run if it were not escaped.
HOSTILE = "<img src=x onerror=alert(1)>&\"'-0"
TAGS = {"html", "head", "meta", "title", "style", "body", "header", "h1", "p", "pre", "b", "code"}
TAGS |= {"figure", "figcaption", "svg", "pattern", "path", "rect"}
#: Elements without an end.
VOID = {"meta"}
#: Attributes by which a browser fetches something.
FETCHING = {"src", "href", "xlink:href", "data", "action", "background", "srcset", "poster"}
#: What differs between two runs: how long one took, and how much of the disk is free.
CHANGING = re.compile(r"[\d.]+ m?s;|[\d.,]+ \w+ of [\d.,]+ \w+ free, [\d,]+ inodes")


class Page(HTMLParser):
    """A page as elements; ``text`` is what a browser shows, ``rects`` are the parts of bars."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.rects: list[dict[str, str]] = []
        self.shown: list[str] = []
        self.titles: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "rect":
            self.rects.append({name: value or "" for name, value in attrs})

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["title"]:
            self.titles.append(data)
        elif "style" not in self.open:
            self.shown.append(data)

    @property
    def text(self) -> str:
        return "".join(self.shown)

    def parts(self, kind: Kind) -> list[dict[str, str]]:
        """The parts of a kind, without the one in the legend."""
        found = [rect for rect in self.rects if "x" in rect]
        return [rect for rect in found if rect["class"].split()[0] == kind.name.lower()]


def words(text: str) -> list[str]:
    return CHANGING.sub("", text).split()


def pages_of(*arguments: str | Path) -> tuple[Page, str]:
    """The page of a command, whose exit code is that of its text; the text."""
    argv = [*map(str, arguments)]
    text, html = run(argv), run([*argv, "--format", "html"])
    assert html.code == text.code, html.err
    return Page(html.out), text.out


def damaged(tmp_path: Path) -> Path:
    """A log directory with one corrupt batch."""
    directory = copy_fixture("4.3.1/clean", tmp_path / "damaged")
    log = directory / "codec-zstd-0/00000000000000000000.log"
    log.write_bytes(flip(log.read_bytes(), 600))
    return directory


def commands(tmp_path: Path) -> Iterator[Sequence[str | Path]]:
    directory = damaged(tmp_path)
    yield "verify", directory
    yield "verify", directory / "codec-zstd-0"
    yield "verify", "--quick", directory
    yield "next-start", "--scan", BROKERS / "killed"
    yield "next-start", BROKERS / "killed"
    yield "quorum", directory, BROKERS / "killed"
    yield "compare", *(BROKERS / f"replicas/{node}" for node in (1, 2, 3))


@pytest.mark.parametrize("number", range(7))
def test_a_page_has_the_sentences_of_the_text_and_fetches_nothing(
    number: int, tmp_path: Path
) -> None:
    command = list(commands(tmp_path))[number]
    page, text = pages_of(*command)
    shown, missing = words(page.text), []
    for line in text.splitlines():
        cells = words(line)
        if not any(shown[at : at + len(cells)] == cells for at in range(len(shown))):
            missing.append(line)
    assert not missing
    assert page.tags <= TAGS
    assert not page.attributes & FETCHING
    assert not [name for name in page.attributes if name.startswith("on")]
    assert "default-src 'none'" in run([*map(str, command), "--format", "html"]).out
    assert page.rects


def test_nothing_is_written_for_a_path_without_logs_and_nothing_if_quiet_and_ok(
    tmp_path: Path,
) -> None:
    wrong = run(["verify", str(tmp_path), "--format", "html"])
    assert (wrong.code, wrong.out) == (5, "")
    assert len(wrong.err.splitlines()) == 1
    quiet = run(["verify", "--quiet", str(BROKERS / "clean/codec-zstd-0"), "--format", "html"])
    assert (quiet.code, quiet.out) == (0, "")


def test_a_log_is_drawn_by_its_bytes(tmp_path: Path) -> None:
    partition = damaged(tmp_path) / "codec-zstd-0"
    sizes = [log.stat().st_size for log in sorted(partition.glob("*.log"))]
    page, text = pages_of("verify", partition)
    found = re.search(r"at position (\d+), (\d+) bytes", text)
    assert found is not None
    scale = 800 / sum(sizes)
    (corrupt,) = page.parts(Kind.CORRUPT)
    assert float(corrupt["x"]) == pytest.approx(int(found[1]) * scale, abs=0.1)
    assert float(corrupt["width"]) == pytest.approx(int(found[2]) * scale, abs=0.1)
    widths = [float(part["width"]) for part in page.parts(Kind.VALID)]
    assert widths == pytest.approx([size * scale for size in sizes], abs=0.1)
    assert not page.parts(Kind.UNREAD)
    quick, _ = pages_of("verify", "--quick", partition)  # of sealed segments it reads the ends
    unread, (last,) = quick.parts(Kind.UNREAD), quick.parts(Kind.VALID)
    assert len(unread) == len(sizes) - 1
    assert float(last["x"]) == pytest.approx(sum(sizes[:-1]) * scale, abs=0.1)


def test_what_a_startup_removes_and_what_is_missing_are_drawn(tmp_path: Path) -> None:
    partition = damaged(tmp_path) / "codec-zstd-0"
    logs = sorted(partition.glob("*.log"))
    logs[1].unlink()
    for index in partition.glob(f"{logs[1].stem}.*"):
        index.unlink()
    (partition.parent / ".kafka_cleanshutdown").unlink()
    (partition.parent / "recovery-point-offset-checkpoint").unlink()
    page, _ = pages_of("verify", partition)
    (missing,) = page.parts(Kind.MISSING)
    left, between = (float(missing[name]) for name in ("x", "width"))
    first, *_ = page.parts(Kind.VALID)
    assert left == pytest.approx(float(first["width"]), abs=0.1)
    assert len(page.parts(Kind.REMOVED)) == 2  # a part of the first segment, and all of the last
    assert between == pytest.approx(800 / 41, abs=1)
    assert "truncated at position 479" in "".join(page.titles)


def test_replicas_are_drawn_on_one_scale_of_offsets() -> None:
    page, text = pages_of("compare", *(BROKERS / f"replicas/{node}" for node in (1, 2, 3)))
    assert len(page.parts(Kind.ALONE)) == sum(
        len(line.split(",")) for line in text.splitlines() if line.startswith("  only in")
    )


def test_hostile_names_are_text(tmp_path: Path) -> None:
    directory = damaged(tmp_path)
    (directory / "codec-zstd-0").rename(directory / HOSTILE)
    for command in ("verify", "next-start"):
        page, _ = pages_of(command, directory)
        assert "img" not in page.tags
        assert HOSTILE in page.text
        assert not page.attributes & FETCHING
    other = tmp_path / HOSTILE
    shutil.copytree(BROKERS / "replicas/2", other)
    page, _ = pages_of("compare", BROKERS / "replicas/1", other)
    assert HOSTILE.removesuffix("-0") in page.text
    page, _ = pages_of("quorum", BROKERS / "replicas/1", other)
    assert "img" not in page.tags


def test_parts_of_a_few_bytes_are_seen_and_lie_within_the_bar() -> None:
    bar = Bar("", "", (Part(0, 10**9, Kind.VALID, ""), Part(10**9 - 1, 10**9, Kind.CORRUPT, "")))
    page = Page(picture("", [bar]))
    valid, corrupt = (rect for rect in page.rects if "x" in rect)
    assert float(valid["width"]) == 800
    assert (float(corrupt["x"]), float(corrupt["width"])) == (797, 3)
    assert Page(picture("no bar", [])).rects == []


def test_a_report_without_a_verdict_begins_with_the_name_of_its_command() -> None:
    page = HtmlPage("kdump compare")
    page.emit("PARTITION a<b-0: equal")
    assert Page(page.html()).text.split() == ["kdump", "compare", "PARTITION", "a<b-0:", "equal"]


def test_the_page_is_ascii_whatever_the_terminal_is() -> None:
    page = HtmlPage("kdump verify")
    page.emit("\u05d0\u05d1-0: \U0001f4a5")
    assert page.html().isascii()
    assert "\u05d0\u05d1-0: \U0001f4a5" in Page(page.html()).text


def test_a_hole_inside_a_segment_is_no_corrupt_batch(tmp_path: Path) -> None:
    partition = copy_fixture("4.3.1/clean", tmp_path / "data") / "codec-none-0"
    log = min(partition.glob("*.log"))
    data = log.read_bytes()
    *_, (begin, end) = [(at, end) for at, end in places(data) if end < len(data)]
    log.write_bytes(data[:begin] + data[end:])
    total = sum(path.stat().st_size for path in partition.glob("*.log"))
    page, _ = pages_of("verify", partition)
    assert not page.parts(Kind.CORRUPT)
    (missing,) = page.parts(Kind.MISSING)
    assert float(missing["x"]) == pytest.approx(begin * 800 / total, abs=0.1)


def test_of_many_corrupt_batches_the_rest_is_not_drawn_as_valid(tmp_path: Path) -> None:
    partition = copy_fixture("4.3.1/clean", tmp_path / "data") / "__transaction_state-0"
    (log,) = partition.glob("*.log")
    data = log.read_bytes()
    found = places(data)[::5]
    for _, end in found:
        data = flip(data, end - 1)
    log.write_bytes(data)
    page, _ = pages_of("verify", partition)
    assert len(page.parts(Kind.CORRUPT)) == 8
    (unread,) = page.parts(Kind.UNREAD)
    assert float(unread["x"]) == pytest.approx(found[7][1] * 800 / len(data), abs=0.1)
    assert f"{len(found) - 8} more corrupt places" in "".join(page.titles)


def test_a_torn_tail_is_no_valid_part_and_its_removal_loses_nothing(tmp_path: Path) -> None:
    log = copy_fixture("4.3.1/clean", tmp_path / "data") / "codec-gzip-0" / f"{110:020}.log"
    os.truncate(log, log.stat().st_size - 40)
    page, _ = pages_of("verify", log)
    (tail,) = page.parts(Kind.TAIL)
    size = log.stat().st_size
    assert float(tail["x"]) == pytest.approx(464 * 800 / size, abs=0.1)
    assert float(tail["x"]) + float(tail["width"]) == pytest.approx(800, abs=0.2)


def test_a_metadata_log_without_a_part_is_drawn_in_runs(tmp_path: Path) -> None:
    directory = copy_fixture("4.3.1/clean", tmp_path / "data")
    log = min((directory / "__cluster_metadata-0").glob("*.log"))
    data = log.read_bytes()
    begin, end = places(data)[20]
    log.write_bytes(data[:begin] + data[end:])
    page, _ = pages_of("quorum", directory)
    assert len(page.parts(Kind.VALID)) == 2


def first_pixel(png: bytes) -> tuple[int, ...]:
    """The colour of the pixel at the top left, which no filter changes."""
    data = b"".join(
        png[place + 4 : place + 4 + int.from_bytes(png[place - 4 : place])]
        for place in (found.start() for found in re.finditer(b"IDAT", png))
    )
    return tuple(zlib.decompressobj().decompress(data)[1:4])


@pytest.mark.slow
@pytest.mark.chromium
def test_a_browser_shows_it_in_light_in_dark_and_in_print(tmp_path: Path) -> None:
    directory = damaged(tmp_path)
    (directory / "codec-lz4-0").rename(directory / HOSTILE)
    html = tmp_path / "report.html"
    html.write_text(run(["verify", str(directory), "--format", "html"]).out)
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    browser = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", profile]
    browser += ["--enable-logging=stderr", "--v=0", "--hide-scrollbars"]

    def shown(*options: str) -> str:
        done = subprocess.run(
            [*browser, *options, html.as_uri()], capture_output=True, text=True, timeout=120
        )
        # What a page's policy forbids, and every error of a page, is logged there.
        assert "CONSOLE" not in done.stderr
        assert done.returncode == 0, done.stderr
        return done.stdout

    document = shown("--dump-dom")
    assert Page(document).parts(Kind.CORRUPT)
    assert HOSTILE in Page(document).text
    pixels = []
    for scheme in ("1", "0"):
        picture_file = tmp_path / f"{scheme}.png"
        shown(f"--screenshot={picture_file}", f"--blink-settings=preferredColorScheme={scheme}")
        pixels.append(first_pixel(picture_file.read_bytes()))
    assert pixels == [(0xFF, 0xFF, 0xFF), (0x14, 0x18, 0x1C)]
    printed = tmp_path / "report.pdf"
    shown(f"--print-to-pdf={printed}", "--blink-settings=preferredColorScheme=0")
    assert len(re.findall(rb"/Type\s*/Page\b", printed.read_bytes())) >= 1
