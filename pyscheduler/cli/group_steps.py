"""The rows of `explain` about the group of a pod: how many members exist, and how many fit at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_objects.kinds import ENDED_PODS, PODS
from pyscheduler.api import EndedPod, Pod
from pyscheduler.cli.disruption import first_few
from pyscheduler.cli.explanation import HOLDS, INFO, OK, Step
from pyscheduler.cli.job_steps import JobSteps
from pyscheduler.cli.podgroup.summary import summary_of
from pyscheduler.cli.unread_kinds import unknown_step
from pyscheduler.framework.cycle_state import CycleState
from pyscheduler.framework.diagnosis import FitError, NoNodesError
from pyscheduler.framework.errors import PluginError
from pyscheduler.framework.pod_info import PodInfo
from pyscheduler.podgroup import GroupDirectory, kinds_of, resolve
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.runtime.cooperative_yield import CooperativeYield
from pyscheduler.runtime.statement import Statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.cli.job_steps import PodQuestion
    from pyscheduler.cli.podgroup.summary import Summary
    from pyscheduler.podgroup import DialectTable, GroupState

__all__ = ["group_steps", "placed_together"]

_INCOMPLETE: Final = "GroupIncomplete"
_NO_GROUP: Final = "PodGroupDoesNotExist"
_UNSCHEDULABLE: Final = "Unschedulable"
_NEXT: Final = {
    _INCOMPLETE: "the group is tried when enough members exist",
    _UNSCHEDULABLE: "the group is tried again after an event that can make room for its members",
}


async def group_steps(question: PodQuestion) -> JobSteps | None:
    """Return the steps of the group that the pod names; None for a pod without a group."""
    table = discover(blocked=question.options.blocked).dialect_table(lambda _: None)
    if resolve(question.pod, tuple(table)) is None:
        return None
    directory = await _directory(question, table)
    state = directory.of(question.pod)
    if state is None:
        return None
    dialect = directory.dialect_of(state)
    refused = question.refused(dialect.kinds)
    if refused and not state.group.is_declared:
        return JobSteps(steps=[unknown_step("group", refused)])
    summary = summary_of(state, dialect)
    is_served = question.is_served and dialect.claimed_by in question.profile.plugins
    steps = [_members(summary, is_served=is_served)]
    if state.group.is_gang and not steps[0].reason:
        steps += await _places(question, summary, is_served=is_served)
    then = _NEXT.get(steps[-1].reason, "")
    unserved = _unserved(question, _unplaced(state)) if steps[-1].reason == _UNSCHEDULABLE else []
    if unserved:
        then = f"correct the schedulerName of {first_few([pod.key for pod in unserved])}, or serve it"
    if steps[-1].reason == _NO_GROUP:
        then = f"create the {dialect.kinds[0].kind} {state.group.id}"
    return JobSteps(steps=steps, next=then)


async def _directory(question: PodQuestion, table: DialectTable) -> GroupDirectory:
    directory = GroupDirectory(table)
    for kind in kinds_of(table):
        for item in await question.read(kind):
            directory.object_added(item)
    for kind in (PODS, ENDED_PODS):
        for item in await question.read(kind):
            if isinstance(item, Pod | EndedPod):
                directory.pod_added(item if isinstance(item, Pod) else item.as_pod())
    return directory


def _members(summary: Summary, *, is_served: bool) -> Step:
    """Return the step that counts the members; it holds the pod if the plugin of the group is in the profile."""
    state, group = summary.state, summary.state.group
    name = f"group {group.id} ({summary.dialect.system})"
    counts = f"{summary.bound} bound, {summary.waiting} with an intended node, {summary.pending} without a node"
    there = state.child_count + len(state.succeeded)
    if not group.is_declared:
        text, reason = f"{name} does not exist, so its minimum is not known; {there} pods name it", _NO_GROUP
    elif group.is_gang and there < group.min:
        text, reason = f"{name} needs {group.min} members, but {there} exist: {counts}", _INCOMPLETE
    else:
        lacking = "" if state.parts is None else state.parts.lacking_members()
        text = f"{name} needs {group.min} members, and {there} exist: {counts}"
        text, reason = (f"{text}; sub-groups lack members: {lacking}", _INCOMPLETE) if lacking else (text, "")
    if not is_served:
        text += f"; the plugin {summary.dialect.claimed_by} for such groups is not in the pod's profile"
    return Step("group", HOLDS if reason and is_served else INFO if reason else OK, reason if is_served else "", text)


async def _places(question: PodQuestion, summary: Summary, *, is_served: bool) -> list[Step]:
    """Return the step that says how many members without a node fit at the same time.

    Devices and volumes of members placed before are not counted: Reserve does not run.
    """
    pods = _unplaced(summary.state)
    if not pods:
        return []
    placed, failure = await placed_together(question, pods)
    missing = max(summary.state.group.min - summary.bound - len(summary.state.succeeded), 0)
    text = f"{placed} of {len(pods)} members without a node fit at the same time"
    if missing:
        text += f"; {missing} must"
    if failure:
        text += f"; {failure}"
    if placed < missing:
        return [Step("members", HOLDS, _UNSCHEDULABLE, text) if is_served else Step("members", INFO, "", text)]
    return [Step("members", OK, "", text)]


def _unplaced(state: GroupState) -> Sequence[Pod]:
    pods = [pod for pod in state.pending.values() if not pod.spec.scheduling_gates]
    return sorted(pods, key=lambda pod: (-pod.priority, pod.name))


def _unserved(question: PodQuestion, pods: Sequence[Pod]) -> list[Pod]:
    """Return the pods that this scheduler does not place, because no profile of it has their schedulerName."""
    served = {*question.scheduler.profiles, *question.options.left_out}
    return [pod for pod in pods if pod.scheduler_name not in served] if question.is_served else []


async def placed_together(question: PodQuestion, pods: Sequence[Pod]) -> tuple[int, str]:
    """Return how many pods find nodes one after the other, and why the first that does not finds none."""
    scheduler = question.scheduler
    unserved = _unserved(question, pods)
    names = [f'{pod.key} has the schedulerName "{pod.scheduler_name}", which no profile has' for pod in unserved]
    count, failure = 0, first_few(names)
    async with scheduler.snapshot_access:
        scheduler.snapshot_access.refresh()
        pipeline = scheduler.scheduling.pipeline.for_trial()
        turns = CooperativeYield(question.profile.clock)
        with Statement(scheduler.snapshot) as statement:
            for pod in pods:
                if pod in unserved:
                    continue
                profile = scheduler.profiles.get(pod.scheduler_name, question.profile)
                try:
                    placement = await pipeline.find_node(profile, CycleState(statement.trial), pod)
                except (FitError, NoNodesError, PluginError) as error:
                    failure = failure or f"{pod.key}: {error}"
                    continue
                statement.place(PodInfo.of(pod.with_node_name(placement.node_name)), placement.node_name)
                count += 1
                await turns.yield_if_due()
    return count, failure
