"""Check the recorded writes of an API server, one after the other, against the rules of `pyscheduler_lab.audit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler_lab.audit.options import Options
from pyscheduler_lab.audit.rule_gangs import GangRule
from pyscheduler_lab.audit.rule_limits import LimitRule
from pyscheduler_lab.audit.rule_loops import EndRule, RepeatRule
from pyscheduler_lab.audit.rule_protection import ProtectionRule
from pyscheduler_lab.audit.rule_purpose import PurposeRule
from pyscheduler_lab.audit.rule_reasons import ReasonRule
from pyscheduler_lab.audit.rule_shares import ShareRule
from pyscheduler_lab.audit.rule_status import StatusRule
from pyscheduler_lab.audit.verdict import Verdict
from pyscheduler_lab.audit.world import World

if TYPE_CHECKING:
    from pyscheduler_lab.audit.history import History
    from pyscheduler_lab.audit.rule import Rule

__all__ = ["RULES", "check"]

RULES: Final[tuple[type[Rule], ...]] = (
    GangRule,
    LimitRule,
    ProtectionRule,
    PurposeRule,
    ShareRule,
    RepeatRule,
    EndRule,
    ReasonRule,
    StatusRule,
)
"""The rules in order of their numbers."""


def check(history: History, options: Options | None = None) -> Verdict:
    """Replay a history and return the verdict; violations are in order of time."""
    world = World(options or Options(), history.eviction_records())
    verdict = Verdict()
    rules = [rule(world, verdict) for rule in RULES]
    for change in history.changes:
        for rule in rules:
            rule.advance(change.at)
        for rule in rules:
            rule.before(change)
        facts = world.apply(change)
        for rule in rules:
            for fact in facts:
                rule.take(fact)
            rule.after(change)
    for rule in rules:
        rule.finish(history.end)
    verdict.violations.sort(key=lambda one: (one.at, one.revision, one.rule))
    return verdict
