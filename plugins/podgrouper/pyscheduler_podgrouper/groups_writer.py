"""Write the pod groups of workloads to the API server, and add the workloads' pods to the groups."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import msgspec

from kube_objects.meta import is_older
from pyscheduler.api import KubeObject, Pod
from pyscheduler.framework import AlreadyExistsError, APIError, ConflictError, NotFoundError, TransportError
from pyscheduler.podgroup import PodGroups
from pyscheduler_podgrouper.apply import group_body, group_patch
from pyscheduler_podgrouper.contract import Owner
from pyscheduler_podgrouper.generic import POD_GROUP_ANNOTATION, SUB_GROUP_LABEL
from pyscheduler_podgrouper.kinds import PODGROUPS, body_of

if TYPE_CHECKING:
    from pyscheduler.framework import Handle
    from pyscheduler_podgrouper.contract import GroupPlan, Settings

__all__ = ["GroupsWriter", "Member", "membership_patch"]

_log = logging.getLogger(__name__)

#: How many pods are written at a time; with more, bindings would wait for these writes.
_PATCHES: Final = 8
#: Namespace and name.
_Key: TypeAlias = tuple[str, str]


@attrs.frozen
class Member:
    """A pod and the group that its rule wants."""

    pod: Pod
    plan: GroupPlan

    @property
    def key(self) -> _Key:
        """Return namespace and name of the group."""
        return (self.plan.namespace, self.plan.name)

    @property
    def membership(self) -> tuple[str, str | None]:
        """Return the names of the group and the sub-group."""
        return (self.plan.name, self.plan.sub_group_of(self.pod))


def membership_patch(pod: Pod, plan: GroupPlan) -> dict[str, Any]:
    """Return the patch that makes a pod a member of its group; empty if it is one. An old sub-group label stays."""
    metadata: dict[str, Any] = {}
    if pod.annotations.get(POD_GROUP_ANNOTATION) != plan.name:
        metadata["annotations"] = {POD_GROUP_ANNOTATION: plan.name}
    sub_group = plan.sub_group_of(pod)
    if sub_group is not None and pod.labels.get(SUB_GROUP_LABEL) != sub_group:
        metadata["labels"] = {SUB_GROUP_LABEL: sub_group}
    return {"metadata": {"uid": pod.uid, **metadata}} if metadata else {}


class GroupsWriter:
    """Writes groups and members.

    It calls `grouped` with the pods whose group is there, then `written` for each pod that is a member in the API, too.
    For a pod that is not, it calls `failed`.
    """

    def __init__(
        self,
        handle: Handle,
        settings: Settings,
        *,
        failed: Callable[[Pod, Exception], object],
        grouped: Callable[[Sequence[Pod]], object],
        written: Callable[[Pod], object],
    ) -> None:
        self._client = handle.client
        self._settings = settings
        self._failed = failed
        self._grouped = grouped
        self._member_written = written
        self._groups = handle.lister(PODGROUPS.type)
        self._directory = PodGroups.of(handle).directory
        #: Groups as written last; the watch may be behind.
        self._written: dict[_Key, KubeObject] = {}
        #: Members to write, by group; a group with a task is in `_busy`.
        self._waiting: dict[_Key, dict[str, Member]] = {}
        self._busy: set[_Key] = set()
        #: Members whose group is written and that are not, by uid of the pod, and their order.
        self._unwritten: dict[str, Member] = {}
        self._order: asyncio.Queue[str] = asyncio.Queue()
        #: Number of writes by kind of object.
        self._writes = handle.metrics.counter(
            "podgrouper_writes_total", "Writes of pod groups and of pods", labels=["kind"]
        )
        self._groups.add_event_handler(on_delete=self._deleted)

    def _deleted(self, group: KubeObject) -> None:
        self._written.pop((group.namespace, group.name), None)

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Write members from now on, in `tasks`."""
        for known in (self._waiting, self._busy, self._unwritten):
            known.clear()
        self._order = asyncio.Queue()
        for number in range(_PATCHES):
            tasks.create_task(self._write_members(), name=f"members of pod groups {number}")

    def put(self, members: Sequence[Member], tasks: asyncio.TaskGroup) -> None:
        """Write these members and their groups, in `tasks`."""
        for member in members:
            self._announce(member)
            self._waiting.setdefault(member.key, {})[member.pod.uid] = member
        for key in {member.key for member in members}:
            if key not in self._busy:
                self._busy.add(key)
                tasks.create_task(self._work(key), name=f"pod group {key[0]}/{key[1]}")

    def _announce(self, member: Member) -> None:
        """Make a pod a member in memory, as it is after the write."""
        pod, patch = member.pod, membership_patch(member.pod, member.plan)
        if not patch:
            return
        changed = {
            name: {**getattr(pod.metadata, name), **patch["metadata"].get(name, {})}
            for name in ("labels", "annotations")
        }
        metadata = msgspec.structs.replace(pod.metadata, **changed)
        self._directory.expect(msgspec.structs.replace(pod, metadata=metadata))

    async def _work(self, key: _Key) -> None:
        try:
            while members := self._waiting.pop(key, None):
                await self._write_safely(key, list(members.values()))
        finally:
            self._busy.discard(key)

    async def _write_safely(self, key: _Key, members: Sequence[Member]) -> None:
        try:
            await self._write(key, members)
        except Exception as error:  # a bug with one group must not stop the others  # noqa: BLE001
            _log.exception("Pod group cannot be written podGroup=%s/%s", *key)
            for member in members:
                self._failed(member.pod, error)

    async def _write(self, key: _Key, members: Sequence[Member]) -> None:
        # Members of one gang say the same, but for kinds whose pods come one after the other: then the most counts.
        plan = max((member.plan for member in members), key=lambda each: each.min_member)
        try:
            await self._write_group(key, plan)
        except (APIError, TransportError) as error:
            for member in members:
                self._failed(member.pod, error)
            return
        self._grouped([member.pod for member in members])
        for member in members:
            uid = member.pod.uid
            if uid not in self._unwritten:
                self._order.put_nowait(uid)
            self._unwritten[uid] = member

    async def _write_group(self, key: _Key, plan: GroupPlan) -> None:
        namespace, name = key
        kind = PODGROUPS.type
        existing = self._latest(key)
        if existing is None:
            try:
                stored = await self._client.create(kind, group_body(plan), namespace)
            except AlreadyExistsError:
                existing = await self._client.get(kind, name, namespace)
            else:
                self._stored(key, stored)
                return
        patch = group_patch(plan, Owner.from_object(existing, body_of(existing)), self._settings)
        if not patch:
            return
        try:
            stored = await self._client.patch(kind, name, namespace, patch=patch)
        except NotFoundError:
            self._written.pop(key, None)
            stored = await self._client.create(kind, group_body(plan), namespace)
        self._stored(key, stored)

    def _latest(self, key: _Key) -> KubeObject | None:
        seen, written = self._groups.get(key[1], key[0]), self._written.get(key)
        if written is None or (seen is not None and not is_older(seen.resource_version, written.resource_version)):
            return seen
        return written

    def _stored(self, key: _Key, group: KubeObject) -> None:
        self._written[key] = group
        self._writes.add(kind="PodGroup")
        self._directory.object_added(group)

    async def _write_members(self) -> None:
        while True:
            uid = await self._order.get()
            member = self._unwritten[uid]
            await self._write_member(member)
            later = self._unwritten.pop(uid)
            if later.membership != member.membership:
                self._unwritten[uid] = later
                self._order.put_nowait(uid)

    async def _write_member(self, member: Member) -> None:
        pod, patch = member.pod, membership_patch(member.pod, member.plan)
        try:
            if patch:
                await self._client.patch(Pod, pod.name, pod.namespace, patch=patch)
                self._writes.add(kind="Pod")
        except (NotFoundError, ConflictError):
            self._member_written(pod)  # the pod is gone; another one may have its name
        except Exception as error:  # a bug with one pod must not stop the others  # noqa: BLE001
            if not isinstance(error, (APIError, TransportError)):
                _log.exception("Pod cannot be written pod=%s", pod.key)
            self._failed(pod, error)
        else:
            self._member_written(pod)


def selects(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Return True if labels have all pairs of a selector."""
    return selector.items() <= labels.items()
