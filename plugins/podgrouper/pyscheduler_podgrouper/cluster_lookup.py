"""Read cluster objects that are needed to group pods, from watches or by requests to the API server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyscheduler.api import Pod, PriorityClass
from pyscheduler.framework import ForbiddenError, NotFoundError
from pyscheduler_podgrouper.contract import ObjectForbiddenError, ObjectNotFoundError, Owner, Settings
from pyscheduler_podgrouper.kinds import PODGROUPS, DefaultsConfigMap, body_of
from pyscheduler_podgrouper.planning import plan_group
from pyscheduler_podgrouper.pod_index import PodIndex

if TYPE_CHECKING:
    from pyscheduler.api import KubeObject, ResourceKind
    from pyscheduler.framework import Handle, Lister
    from pyscheduler_podgrouper.contract import GroupPlan
    from pyscheduler_podgrouper.table import GrouperTable

__all__ = ["ClusterLookup"]

#: Kinds of which the watch knows all: most of what rules look up there does not exist.
_TRUSTED: Final = frozenset({PODGROUPS.type, PriorityClass, DefaultsConfigMap})


class _Unread(Exception):  # noqa: N818 - it asks for a read
    """A rule needs an object that the watch does not show."""

    def __init__(self, kind: type[KubeObject], name: str, namespace: str) -> None:
        self.kind = kind
        self.name = name
        self.namespace = namespace
        super().__init__(f"{kind.__name__} {namespace}/{name}")


class ClusterLookup:
    """The lookup of one profile."""

    def __init__(self, handle: Handle, settings: Settings, kinds: Iterable[ResourceKind]) -> None:
        self.settings = settings
        self._client = handle.client
        self._types: dict[tuple[str, str], tuple[type[KubeObject], Lister[KubeObject], bool]] = {
            (kind.api_version, kind.kind): (kind.type, handle.lister(kind.type), kind.namespaced) for kind in kinds
        }
        self._types["v1", "Pod"] = (Pod, handle.lister(Pod), True)
        self._index = PodIndex(handle.lister(Pod))
        #: Objects read past the watch for the pod that is planned now; an error is what the API server answered.
        self._read: dict[tuple[type[KubeObject], str, str], Owner | NotFoundError | ForbiddenError] = {}

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> Owner:
        """Return an object."""
        found = self._types.get((api_version, kind))
        if found is None:
            raise ObjectForbiddenError(f"{kind} of {api_version} may not be read; name it in extraOwners")
        cls, lister, is_namespaced = found
        namespace = namespace if is_namespaced else ""
        item = lister.get(name, namespace)
        if item is not None:
            return Owner.from_object(item, body_of(item))
        said = f'{kind} "{name}" not found'
        if cls in _TRUSTED:
            raise ObjectNotFoundError(said)
        answer = self._read.get((cls, name, namespace))
        if answer is None:
            raise _Unread(cls, name, namespace)
        if isinstance(answer, ForbiddenError):
            raise ObjectForbiddenError(str(answer))
        if isinstance(answer, NotFoundError):
            raise ObjectNotFoundError(said)
        return answer

    def pods(self, namespace: str, *, labels: Mapping[str, str]) -> Sequence[Pod]:
        """Return the living pods with these labels."""
        return self._index.with_labels(namespace, labels)

    def members(self, namespace: str, group: str) -> Sequence[Pod]:
        """Return the living pods that name a group."""
        return self._index.members(namespace, group)

    async def plan(self, pod: Pod, table: GrouperTable) -> GroupPlan | None:
        """Return the group of a pod, as `plan_group` does; objects that the watch lacks are read.

        Raises `GroupingError`, `APIError` and `TransportError`.
        """
        while True:
            try:
                return plan_group(pod, self, table)
            except _Unread as missing:
                key = (missing.kind, missing.name, missing.namespace)
                try:
                    item = await self._client.get(*key)
                except (NotFoundError, ForbiddenError) as error:
                    self._read[key] = error.with_traceback(None)
                else:
                    self._read[key] = Owner.from_object(item, body_of(item))

    def forget_reads(self) -> None:
        """Forget what was read past the watch, which shows it by the next round."""
        self._read.clear()
