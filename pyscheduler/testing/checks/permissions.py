"""Finds requests of the checked scheduler that kube-apiserver would refuse, because no permission is declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kube_testserver.access.authorizer import AlwaysAllow
from kube_testserver.access.rules import compile_rule
from pyscheduler.cluster.real import event_writer

if TYPE_CHECKING:
    from kube_testserver.access.attributes import Attributes
    from kube_testserver.access.authorizer import Decision
    from kube_testserver.access.users import User
    from pyscheduler.scheduler.scheduler import Scheduler
    from pyscheduler.testing.checks.coverage import Coverage

__all__ = ["UndeclaredRequests"]


class UndeclaredRequests(AlwaysAllow):
    """Allows every request, and notes those that neither `rbac` nor `watches` of a plugin nor the scheduler grants."""

    def __init__(self, scheduler: Scheduler, coverage: Coverage) -> None:
        self._coverage = coverage
        self._rules = [
            compile_rule(
                {
                    "verbs": [*rule.verbs],
                    "apiGroups": [*rule.api_groups],
                    "resources": [*rule.resources],
                    "resourceNames": [*rule.resource_names],
                }
            )
            for rule in (*(need.rule for need in scheduler.needs), *event_writer.RULES)
        ]

    def authorize(self, user: User, asked: Attributes, *, note: bool = False) -> Decision:
        """Allow it."""
        if asked.resource and not any(rule.allows(asked) for rule in self._rules):
            self._coverage.undeclared.add((asked.group, asked.combined, asked.verb))
        return super().authorize(user, asked, note=note)
