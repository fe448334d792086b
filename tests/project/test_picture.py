"""README's picture shows what README's example prints, and fetches nothing."""

from __future__ import annotations

import re
import xml.etree.ElementTree as Xml
from pathlib import Path

import pytest

from support.documents import TEXTS
from support.shown import ROOT, normalize, printed, steps

pytestmark = pytest.mark.once

PICTURE = ROOT / "man" / "kdump-verify.svg"
NAMESPACE = "http://www.w3.org/2000/svg"


def shown() -> str:
    """The text of the terminal, line for line."""
    lines: dict[float, list[tuple[float, str]]] = {}
    for text in Xml.parse(PICTURE).iter(f"{{{NAMESPACE}}}text"):
        if "title" not in text.get("class", ""):
            place = (float(text.get("x", "0")), text.text or "")
            lines.setdefault(float(text.get("y", "0")), []).append(place)
    pieces = ("".join(part for _, part in sorted(lines[y])) for y in sorted(lines))
    return "\n".join(pieces).replace("\N{NO-BREAK SPACE}", " ")


def test_it_shows_the_example(tmp_path: Path) -> None:
    picture = normalize(shown())
    for step, output in printed(TEXTS["README"], tmp_path):
        assert normalize(f"$ {step.command}\n{output}") in picture
    assert len(list(steps(TEXTS["README"]))) == picture.count("$ ")


def test_it_is_in_readme() -> None:
    assert f"](man/{PICTURE.name})" in TEXTS["README"]


def test_it_fetches_nothing() -> None:
    text = PICTURE.read_text()
    assert re.findall(r"[a-z]+://[^\"')\s]+", text) == [NAMESPACE]
    elements = {element.tag.rpartition("}")[2] for element in Xml.fromstring(text).iter()}
    assert elements <= {"svg", "style", "defs", "clipPath", "rect", "g", "circle", "text"}
    assert "@import" not in text
