"""Hypothesis's settings for the long runs: more examples, and other ones each time.

``pytest -p support.hypothesis_profiles`` with tests on PYTHONPATH loads it; tests/nightly does.
The profile of all other runs is Hypothesis's own ``ci``, named in pyproject.toml.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "nightly",
    max_examples=3000,
    deadline=None,
    derandomize=False,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
