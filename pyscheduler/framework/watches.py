"""What a plugin declares that it reads, and the permissions it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["Lister", "PolicyRule", "Watch"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@attrs.frozen(kw_only=True)
class Watch(Generic[T]):
    """A kind of object that a plugin needs cached: its place in the API and the type it is decoded into.

    `type` is a frozen msgspec Struct with `metadata: ObjectMeta` (see `pyscheduler.api.meta`). Built-in kinds that the
    scheduler knows are named by their `pyscheduler.api` type alone, through `Watch.of`.
    """

    group: str
    version: str
    plural: str
    kind: str
    type: type[T]
    namespaced: bool = True

    #: Events of this kind reach queueing hints as `plural.version.group`.
    resource_label_format: ClassVar[str] = "{plural}.{version}.{group}"

    @property
    def event_resource(self) -> str:
        """Return the name of this kind in cluster events, as kube-scheduler names dynamic kinds."""
        return self.resource_label_format.format(plural=self.plural, version=self.version, group=self.group)


@attrs.frozen(kw_only=True)
class PolicyRule:
    """One rule of the ClusterRole that a profile with this plugin needs."""

    api_groups: Sequence[str]
    resources: Sequence[str]
    verbs: Sequence[str]


class Lister(Protocol[T_co]):
    """The cached objects of one kind; kept up to date by a watch, never changed by readers."""

    @property
    def synced(self) -> bool:
        """Tell whether the first list has arrived; False while the kind's CRD is absent."""
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
    ) -> None:
        """Call back on every change from now on, and `on_add` at once for what is already there."""
        ...
