"""Base class of rules that audit a batch scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyscheduler_lab.audit.verdict import Verdict, Violation

if TYPE_CHECKING:
    from pyscheduler_lab.audit.facts import Fact
    from pyscheduler_lab.audit.history import Change
    from pyscheduler_lab.audit.world import World

__all__ = ["Rule"]


class Rule:
    """One rule during one check. The checker calls the hooks in the order in which they stand here."""

    number: ClassVar[int]

    def __init__(self, world: World, verdict: Verdict) -> None:
        self.world = world
        self.options = world.options
        self.verdict = verdict

    def advance(self, at: float) -> None:
        """Judge what was due before `at`."""

    def before(self, change: Change) -> None:
        """See the world just before a change."""

    def take(self, fact: Fact) -> None:
        """Judge a fact; the world has it already."""

    def after(self, change: Change) -> None:
        """See the world just after a change."""

    def finish(self, end: float) -> None:
        """Judge what remains; the log is complete until `end`."""

    def judge(self) -> None:
        """Count one thing as judged."""
        self.verdict.judged[self.number] += 1

    def skip(self, count: int = 1) -> None:
        """Count things as undecided."""
        if count:
            self.verdict.undecided[self.number] += count

    def report(self, at: float, revision: int, objects: tuple[str, ...], text: str) -> None:
        """Report a violation."""
        self.verdict.violations.append(
            Violation(rule=self.number, at=at, revision=revision, objects=objects, text=text)
        )
