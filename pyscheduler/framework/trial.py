"""Trials: scheduling cycles whose results the scheduler undoes.

A trial shows where pods would run. For example, before the scheduler schedules the members of a group, it looks for a
node for each of them. In a trial, `state.trial` is a `Trial`; in a normal cycle, it is None.

Plugins must follow these rules in a trial:

- `reserve` records what the pod holds, so that the next pod of the trial sees it. It starts no timer, emits no
  event, sends no request and activates no pod.
- `permit` returns WAIT if too few pods of the group have a node so far (`trial.placed(group)`).
- `unreserve` removes the record and emits no event. The scheduler calls it for every `reserve`, in reverse order.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from pyscheduler.framework.cycle_state import StateKey

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

__all__ = ["Trial", "TrialKind"]


class TrialKind(StrEnum):
    """The purpose of a trial."""

    #: An attempt to schedule several pods together. If enough of them fit, they are scheduled for real.
    ATTEMPT = "attempt"
    #: A report of what an attempt would come to. Plugins answer as in an attempt, and change nothing.
    EXPLAIN = "explain"
    #: A question whether a pod fits. A plugin that counts attempts, or refuses a pod for a while, lets the pod pass.
    QUESTION = "question"


class Trial:
    """A trial, and which pods of which group have a node in it. All pods of one trial share the object."""

    __slots__ = ("_placed", "kind")

    def __init__(self, kind: TrialKind = TrialKind.ATTEMPT) -> None:
        self.kind = kind
        self._placed: dict[Hashable, dict[str, str]] = {}

    @property
    def is_attempt(self) -> bool:
        """Return True if the pods are scheduled for real when enough of them fit."""
        return self.kind is TrialKind.ATTEMPT

    @property
    def is_question(self) -> bool:
        """Return True if somebody only asks whether the pod fits."""
        return self.kind is TrialKind.QUESTION

    def placed(self, group: Hashable) -> Mapping[str, str]:
        """Return node names by uid: the pods of a group that have a node so far, from Reserve on."""
        return self._placed.get(group, {})

    def place(self, group: Hashable, uid: str, node_name: str) -> None:
        """Note that a pod has a node; for the scheduler."""
        self._placed.setdefault(group, {})[uid] = node_name

    def take_back(self, group: Hashable, uid: str) -> None:
        """Note that a pod has no node any more; for the scheduler."""
        self._placed.get(group, {}).pop(uid, None)

    def former_keys(self) -> Mapping[str, object]:
        """Return what told of a trial before `state.trial` did, by key of the cycle state; for one version."""
        if self.is_question:
            return {WHAT_IF: True}
        keys: dict[str, object] = {PREEMPTION_INQUIRY: PreemptionInquiry()}
        return {**keys, GROUP_CYCLE: self} if self.is_attempt else keys


class PreemptionInquiry:
    """The mark that made preemption report its findings only, before `state.trial` did; for one version."""

    __slots__ = ("findings",)

    def __init__(self, findings: object = None) -> None:
        self.findings = findings

    def clone(self) -> PreemptionInquiry:
        """Return itself: copies of a state share the findings."""
        return self


# The keys that plugins tested before `state.trial` existed.
GROUP_CYCLE: Final[StateKey[Trial]] = StateKey("pyscheduler/group-cycle")
WHAT_IF: Final[StateKey[bool]] = StateKey("pyscheduler/what-if")
PREEMPTION_INQUIRY: Final[StateKey[PreemptionInquiry]] = StateKey("kubernetes.io/preemption-inquiry")
