"""Facts that the audit of a batch scheduler checks: bindings, evictions, ends of evicted pods, and other changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from pyscheduler_lab.audit.core_objects import Pod
    from pyscheduler_lab.audit.evictions import EvictionRecord

__all__ = ["Bound", "Evicted", "Fact", "Left", "Outside"]


@attrs.frozen(kw_only=True)
class Bound:
    """The scheduler bound a pod of a batch profile. `pod` is the version with its node."""

    at: float
    revision: int
    pod: Pod


@attrs.frozen(kw_only=True)
class Evicted:
    """The batch scheduler evicted a pod. `pod` is the last version before. `slot` stays the same for a replacement."""

    at: float
    revision: int
    pod: Pod
    record: EvictionRecord
    slot: str


@attrs.frozen(kw_only=True)
class Left:
    """An evicted pod is gone."""

    at: float
    revision: int
    pod: Pod


@attrs.frozen(kw_only=True)
class Outside:
    """Something changed that the batch scheduler did not cause.

    `kind`: ``pod-added``, ``pod-changed``, ``pod-gone``, ``foreign-bound``, ``node-room`` (a node left or has less
    room), ``node``, ``group``, ``queue`` or ``class``. `subject`: the job of a pod, or the key of the object.
    """

    at: float
    revision: int
    kind: str
    subject: str


Fact = Bound | Evicted | Left | Outside
