"""Taints repel pods from a node, tolerations let them stay.

A toleration answers a taint when effect, key and value all fit; an empty effect fits every effect, an empty key
with operator ``Exists`` every taint. The operators ``Gt`` and ``Lt`` compare integers; they stand behind the
feature gate ``TaintTolerationComparisonOperators``, off by default, and without it they tolerate nothing.
"""

from __future__ import annotations

from typing import Final

from pyscheduler.api.meta import Wire

NO_SCHEDULE: Final = "NoSchedule"
"""Effect: new pods stay away."""
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
"""Effect: new pods rather go elsewhere."""
NO_EXECUTE: Final = "NoExecute"
"""Effect: new pods stay away, running ones leave."""

HARD_EFFECTS: Final = frozenset({NO_SCHEDULE, NO_EXECUTE})
"""The effects that forbid a node to a pod without a toleration."""


class Taint(Wire):
    """A mark on a node that keeps pods away; hashable, so that equal taints can be counted once."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class Toleration(Wire):
    """A pod's leave to ignore some taints; operator ``Equal`` when empty."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None
