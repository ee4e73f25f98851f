"""`Observation`: the mistakes that `check_plugin` has found in a plugin so far, and the current test step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pyscheduler.testing.checks.coverage import Coverage
from pyscheduler.testing.checks.findings import CHANGING_REMEDY, UNEQUAL, Finding

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["Observation"]


@attrs.define(kw_only=True)
class Observation:
    """The findings about one plugin in one run, in their order; only those of `checks` are kept."""

    plugin: str
    checks: Collection[str]
    #: The most CPU time that one call may take, in seconds.
    cpu_limit: float
    coverage: Coverage = attrs.Factory(Coverage)
    findings: list[Finding] = attrs.Factory(list)
    #: The position of the step that runs.
    step: int = 0

    def wants(self, *checks: str) -> bool:
        """Return True if one of the checks is to run."""
        return any(check in self.checks for check in checks)

    def add(self, check: str, place: str, what: str, *, remedy: str = "", is_measured: bool = False) -> None:
        """Keep a finding, if its check is to run."""
        if check in self.checks:
            if check in UNEQUAL and self.coverage.changing:
                what, remedy = f"{what}; {self.coverage.calls_of_changing()}", CHANGING_REMEDY
            finding = Finding(
                check=check, place=place, what=what, step=self.step, remedy=remedy, is_measured=is_measured
            )
            self.findings.append(finding)
