"""Run alone, these tests have no limit of time for an example, because machines may be busy."""

from __future__ import annotations

import hypothesis

if hypothesis.settings.default.deadline is not None:
    hypothesis.settings.register_profile("alone", deadline=None, derandomize=True)
    hypothesis.settings.load_profile("alone")
