"""The result of an audit of a scheduler's decisions: the violations, and how often each rule was applied."""

from __future__ import annotations

from collections import Counter

import attrs

__all__ = ["Verdict", "Violation"]


@attrs.frozen(kw_only=True)
class Violation:
    """One violation: the number of the rule, when, which objects, and one sentence."""

    rule: int
    at: float
    revision: int
    objects: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"rule {self.rule} at {self.at:.3f} s (revision {self.revision}): {self.text}"


@attrs.define
class Verdict:
    """All violations in order of time, and how often each rule was applied."""

    violations: list[Violation] = attrs.Factory(list)
    #: By rule: how many bindings, evictions, pods or queues it judged.
    judged: Counter[int] = attrs.Factory(Counter)
    #: By rule: how many could not be judged, because the log ends too early or the outside interfered.
    undecided: Counter[int] = attrs.Factory(Counter)

    @property
    def ok(self) -> bool:
        """Return True if no rule was violated."""
        return not self.violations

    @property
    def rules(self) -> Counter[int]:
        """Return the number of violations by rule."""
        return Counter(one.rule for one in self.violations)

    def table(self) -> list[str]:
        """Return one line per rule with the three counts."""
        broken = self.rules
        return [
            f"rule {rule}: {self.judged[rule]} judged, {self.undecided[rule]} undecided, {broken[rule]} violations"
            for rule in range(1, 10)
        ]
