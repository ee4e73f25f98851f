"""The kinds of objects that a plugin reads, and the permissions that it needs.

A plugin declares the kinds in its class attribute `watches`, and reads the objects through `handle.lister(MyType)`.
The class attribute `rbac` lists further permissions as `PolicyRule` objects.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import attrs

from pyscheduler.api import BUILT_IN_KINDS
from pyscheduler.framework.events import EventResource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyscheduler.api import ResourceKind

__all__ = ["Lister", "PolicyRule", "event_resource"]

T_co = TypeVar("T_co", covariant=True)


@attrs.frozen(kw_only=True)
class PolicyRule:
    """One permission that the account of the scheduler needs, as an RBAC rule says it; nothing may be `"*"`.

    A subresource is named `pods/status`. Without `namespaces` it is needed in the whole cluster, with them in each of
    these. `resource_names` narrows it to objects of these names; the names of objects to be created cannot be told.
    """

    api_groups: Sequence[str]
    resources: Sequence[str]
    verbs: Sequence[str]
    resource_names: Sequence[str] = ()
    namespaces: Sequence[str] = ()


class Lister(Protocol[T_co]):
    """The cached objects of one kind; kept up to date by a watch, never changed by readers."""

    @property
    def synced(self) -> bool:
        """Return whether the first list has arrived; False while the kind's CRD is absent."""
        ...

    def get(self, name: str, namespace: str = "") -> T_co | None:
        """Return one object, or None."""
        ...

    def __iter__(self) -> Iterator[T_co]:
        """Iterate over all objects; the order is not specified."""
        ...

    def __len__(self) -> int:
        """Return how many there are."""
        ...

    def add_event_handler(
        self,
        *,
        on_add: Callable[[T_co], None] | None = None,
        on_update: Callable[[T_co, T_co], None] | None = None,
        on_delete: Callable[[T_co], None] | None = None,
        late: bool = False,
    ) -> None:
        """Call back on every change from now on, and `on_add` at once for what is already there.

        Handlers run in order of registration, and those that are `late` after all others: the scheduler's queue and
        cache know of the change by then.
        """
        ...


_KNOWN: Final = frozenset(EventResource)
#: Whose kinds are Kubernetes' own, though the scheduler itself need not read them, and they need not be served.
_OWN_GROUPS: Final = frozenset({"scheduling.k8s.io", "resource.k8s.io"})


@lru_cache(maxsize=1024)  # every profile looks up all of its kinds
def event_resource(kind: ResourceKind) -> str:
    """Return what objects of that kind are called in cluster events.

    Built-in kinds are called as in kube-scheduler (`Pod`, `storage.k8s.io/CSINode`), any other
    `plural.version.group`.
    """
    if kind in BUILT_IN_KINDS or kind.group in _OWN_GROUPS:
        name = f"{kind.group}/{kind.kind}" if kind.group else kind.kind
        if name in _KNOWN:
            return name
    return f"{kind.plural}.{kind.version}.{kind.group}"
