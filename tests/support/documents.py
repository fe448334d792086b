"""README and the guides as the tests read them."""

from __future__ import annotations

import re

from shown import DOCUMENTS

TEXTS = {path.stem: path.read_text() for path in DOCUMENTS}
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
