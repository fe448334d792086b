"""README and the guides as the tests read them."""

from __future__ import annotations

import re

from support.shown import DOCUMENTS

TEXTS = {path.stem: path.read_text() for path in DOCUMENTS}
_LINES = r"((?:(?!```).*\n)+)```$"
EXAMPLE = re.compile(rf"^```python\n{_LINES}\n\n```text\n{_LINES}", re.MULTILINE)
