"""Kubernetes' own groups (feature gate GenericWorkload): the PodGroups that pods name in `spec.schedulingGroup`.

The queued pods of such a group are scheduled in one cycle.
Source: kube-scheduler 1.36, `podGroupInfoForPod`, `updatePodGroupCondition`.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import msgspec

from pyscheduler.framework.errors import NotFoundError
from pyscheduler.framework.group_cycle import GroupOutcome
from pyscheduler.framework.watches import PolicyRule
from pyscheduler.podgroup import GroupId, PodGroups
from pyscheduler.podgroup.status import scheduled_condition
from pyscheduler.podgroup.wire import IN_TREE_PODGROUPS, InTreePodGroup

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping

    from kube_objects.clock import Clock
    from pyscheduler.api import Pod, PodCondition
    from pyscheduler.framework.group_cycle import GroupVerdict
    from pyscheduler.framework.handle import Client, Handle
    from pyscheduler.framework.interfaces import GroupCyclePlugin
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.recorder import MetricRecorder
    from pyscheduler.framework.watches import Lister
    from pyscheduler.podgroup import GroupDirectory

__all__ = ["GANG_SCHEDULING", "RULES", "GroupSource", "InTreeGroups", "make_in_tree_groups"]

_log = logging.getLogger(__name__)

GANG_SCHEDULING: Final = "GangScheduling"
"""The plugin at whose gate, and at whose Permit, members wait for each other."""
_FAMILY: Final = "intree"
_REASONS: Final = {
    GroupOutcome.SCHEDULED: ("True", "Scheduled"),
    GroupOutcome.UNSCHEDULABLE: ("False", "Unschedulable"),
    GroupOutcome.WAITING_ON_PREEMPTION: ("False", "Unschedulable"),
    GroupOutcome.ERROR: ("False", "SchedulerError"),
}

#: The permissions that it needs.
RULES: Final = (
    PolicyRule(
        api_groups=(IN_TREE_PODGROUPS.group,), resources=(f"{IN_TREE_PODGROUPS.plural}/status",), verbs=("patch",)
    ),
    PolicyRule(api_groups=(IN_TREE_PODGROUPS.group,), resources=(IN_TREE_PODGROUPS.plural,), verbs=("list", "watch")),
)


@attrs.define(kw_only=True, eq=False)
class InTreeGroups:
    """Has the methods of a `GroupCyclePlugin`, and writes the condition of its groups."""

    #: The plugin at which members wait for each other.
    name: str = attrs.field(default=GANG_SCHEDULING, init=False)
    #: With placements, an event may help a group though it helps none of its members.
    retries_after_backoff: bool = False
    tries_again: bool = attrs.field(default=True, init=False)
    directory: GroupDirectory
    groups: Lister[InTreePodGroup]
    client: Client
    clock: Clock
    recorder: MetricRecorder
    #: The last written conditions by uid, until the watch shows them or the group is deleted.
    _told: dict[str, tuple[PodCondition, ...]] = attrs.Factory(dict)
    _pending: dict[GroupId, GroupVerdict] = attrs.Factory(dict)
    _busy: dict[GroupId, asyncio.Task[None]] = attrs.Factory(dict)

    def __attrs_post_init__(self) -> None:
        self.groups.add_event_handler(on_update=self._shown, on_delete=self._forget)

    def groups_to_schedule(self, pod: Pod) -> Mapping[Hashable, Iterable[Pod]] | None:
        """Return the group that the pod names, with its unbound members."""
        named = pod.spec.scheduling_group
        if named is None or not named.pod_group_name:
            return None
        group = GroupId(pod.namespace, named.pod_group_name, _FAMILY)
        state = self.directory.get(group)
        members = dict(state.pending) if state is not None else {}
        members[pod.uid] = pod
        return {group: members.values()}

    def places_missing(self, group: Hashable) -> int:
        """Return how many more members the gang needs."""
        state = self.directory.get(group) if isinstance(group, GroupId) else None
        if state is None or not state.group.is_gang:
            return 1
        return max(1, state.group.min - state.assigned_count - state.succeeded_count)

    def member_tree(self, group: Hashable) -> None:
        """Return None: Kubernetes' own groups have no parts."""

    def placement_levels(self, groups: Collection[Hashable], nodes: Nodes) -> None:
        """Return None: the plugins of the profile name the placements of Kubernetes' own groups."""

    def all_members(self, group: Hashable) -> Iterable[Pod]:
        """Return the living members of a group."""
        state = self.directory.get(group) if isinstance(group, GroupId) else None
        return () if state is None else [*state.children()]

    def group_cycle_ended(self, groups: Collection[Hashable], verdict: GroupVerdict) -> None:
        """Write the condition, in the background."""
        for group in groups:
            assert isinstance(group, GroupId), "they are those of `groups_to_schedule`"
            self._pending[group] = verdict
            if group not in self._busy:
                self._start(group)

    @property
    def idle(self) -> bool:
        """Return True if nothing is left to write."""
        return not self._busy

    async def flush(self) -> None:
        """Wait until everything is written or rejected."""
        while self._busy:
            await asyncio.wait(list(self._busy.values()))

    def cancel(self) -> None:
        """Drop everything that is not written yet."""
        self._pending.clear()
        for task in self._busy.values():
            task.cancel()

    def _start(self, group: GroupId) -> None:
        verdict = self._pending.pop(group, None)
        if verdict is None:
            return
        item = self.groups.get(group.name, group.namespace)
        if item is None:
            _log.warning("Failed to get PodGroup for status update podGroup=%s", group)
            return
        conditions = self._changed(item, verdict)
        if conditions is None:
            return
        self._told[item.uid] = conditions
        task = asyncio.create_task(self._write(item, conditions), name=f"condition of {group}")
        self._busy[group] = task
        task.add_done_callback(partial(self._written, group))

    def _written(self, group: GroupId, _task: asyncio.Task[None]) -> None:
        del self._busy[group]
        self._start(group)

    def _changed(self, item: InTreePodGroup, verdict: GroupVerdict) -> tuple[PodCondition, ...] | None:
        """Return all conditions after the change; None if nothing changes."""
        known = self._told.get(item.uid, item.status.conditions)
        status, reason = _REASONS[verdict.outcome]
        condition = scheduled_condition(
            known, status=status, reason=reason, message=verdict.message, now=self.clock.wall()
        )
        if condition is None:
            return None
        condition = msgspec.structs.replace(condition, observed_generation=item.metadata.generation)
        # All conditions, because a merge patch replaces the whole list.
        by_type = {each.type: each for each in known}
        by_type[condition.type] = condition
        return tuple(by_type.values())

    async def _write(self, item: InTreePodGroup, conditions: tuple[PodCondition, ...]) -> None:
        body = [{**msgspec.to_builtins(each), "message": each.message, "reason": each.reason} for each in conditions]
        try:
            await self.client.patch(
                InTreePodGroup, item.name, item.namespace, patch={"status": {"conditions": body}}, status=True
            )
        except NotFoundError:
            self._told.pop(item.uid, None)
        except Exception as error:  # noqa: BLE001 - information for users; the next cycle writes it again
            self._told.pop(item.uid, None)
            self.recorder.warning("podgroup_status_patch_failed")
            _log.warning("Failed to update PodGroup status podGroup=%s/%s err=%s", item.namespace, item.name, error)

    def _shown(self, _old: InTreePodGroup, new: InTreePodGroup) -> None:
        """Use the conditions of the API server again if no write is under way."""
        if GroupId(new.namespace, new.name, _FAMILY) not in self._busy:
            self._told.pop(new.uid, None)

    def _forget(self, item: InTreePodGroup) -> None:
        self._told.pop(item.uid, None)


#: Names the pods that are scheduled in one cycle.
GroupSource: TypeAlias = "GroupCyclePlugin | InTreeGroups"


def make_in_tree_groups(handle: Handle, *, retries_after_backoff: bool) -> InTreeGroups:
    """Return the `InTreeGroups` of a scheduler that watches PodGroups; `handle` is that of any of its profiles."""
    groups = PodGroups.of(handle)
    # The groups must be known also if no profile has GangScheduling.
    groups.claim(GANG_SCHEDULING)
    return InTreeGroups(
        retries_after_backoff=retries_after_backoff,
        directory=groups.directory,
        groups=handle.lister(InTreePodGroup),
        client=handle.client,
        clock=handle.clock,
        recorder=handle.recorder,
    )
