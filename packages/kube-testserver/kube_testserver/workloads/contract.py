"""`WorkloadKind`: a kind of workload, and the function that returns the pods and other objects for a workload."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import attrs

__all__ = ["Child", "Object", "Plan", "Rule", "View", "WorkloadKind"]

Object = dict[str, Any]
"""A Kubernetes object as decoded JSON."""


class View(Protocol):
    """The objects that a rule may read beside its workload."""

    def children(self, owner: Object) -> Sequence[Object]:
        """Return the objects whose controller is `owner`, oldest first."""

    def nodes(self) -> Sequence[Object]:
        """Return all nodes."""

    def priority_of(self, name: str) -> int:
        """Return the value of a PriorityClass; 0 if there is none of that name."""

    def storage_class(self, name: str) -> Object | None:
        """Return the StorageClass of that name."""

    def now(self) -> str:
        """Return the present time, as timestamps of objects have it."""


@attrs.frozen(kw_only=True)
class Child:
    """An object that a controller makes.

    With `metadata.generateName`, `count` of them are kept alive; pods that ended do not count. With `metadata.name`
    there is one, whatever its phase.
    """

    obj: Object
    count: int = 1
    #: The controller of the object, if that is not the workload itself.
    owner: Object | None = None
    #: False: the object outlives the workload.
    owned: bool = True
    #: Delete pods that failed, so that new ones take their names.
    replace_failed: bool = False


@attrs.frozen(kw_only=True)
class Plan:
    """The objects that a workload should have. Objects of the row's `makes` that are not listed are deleted."""

    children: tuple[Child, ...] = ()
    #: Fields of the status to set.
    status: Object = attrs.field(factory=dict)
    #: Fields of the workload itself to set.
    change: Object = attrs.field(factory=dict)
    #: Report in the condition `ReplicaFailure` that an object could not be created.
    reports_failure: bool = False


Rule = Callable[[Object, View], Plan]


@attrs.frozen(kw_only=True)
class WorkloadKind:
    """One row of the table."""

    group: str
    version: str
    kind: str
    plural: str
    rule: Rule
    #: Kinds of the objects that the controller makes, and deletes if they are too many.
    makes: tuple[str, ...] = ("Pod",)
    #: The name of the controller, in its events.
    component: str = attrs.field(default=attrs.Factory(lambda self: f"{self.kind.lower()}-controller", takes_self=True))
