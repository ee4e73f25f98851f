"""Summaries of groups for users: which members are bound, which wait, and why."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.api import parse_label_selector
from pyscheduler.podgroup.status import Phase, koordinator_phase

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pyscheduler.api import KubeObject, Pod, ResourceKind
    from pyscheduler.cli.podgroup.group_facts import FactReader, GroupFact
    from pyscheduler.podgroup.dialects import Dialect
    from pyscheduler.podgroup.directory import GroupDirectory
    from pyscheduler.podgroup.membership import GroupState

__all__ = ["Member", "Summary", "labelled", "member_of", "most_informative", "summaries", "summary_of"]

#: How a message begins in which a scheduler quotes a plugin.
_INTRODUCTION: Final = re.compile(r"^\d+/\d+ nodes are available: (?:\d+ )?")
#: How messages begin that only say that another member, or an earlier attempt, failed.
_ECHOES: Final = (
    "optimistic rejection in PostFilter",
    "rejection in Unreserve",
    "pod with pgName:",
    "podGroup ",
    "gang scheduleCycle not valid",
    "pod's schedule cycle too large",
    "pod group is unschedulable, waiting for minCount pods from a gang",
)
_NO_READERS: Final[Mapping[str, FactReader]] = {}
#: No chain of phases is longer.
_MOST_STEPS: Final = len(Phase) + 1


@attrs.frozen(kw_only=True)
class Member:
    """One pod of a group. `node` is the node that it has, or that a scheduler intends for it (`intended`)."""

    pod: Pod
    state: str
    node: str = ""
    intended: bool = False
    #: The last message of the scheduler; "" for a pod that has its node, or was not tried.
    message: str = ""


@attrs.frozen(kw_only=True)
class Summary:
    """The summary of one group."""

    state: GroupState
    dialect: Dialect
    members: Sequence[Member]
    #: The phase, and whether the object says it; otherwise it is computed from the members.
    phase: str
    phase_is_written: bool
    bound: int
    waiting: int
    pending: int
    #: Whether an object of the group may exist, but may not be read.
    is_unread: bool = False
    #: Why members are not bound, as the scheduler says; "" if all are.
    reason: str
    #: For each sub-group with members: its name, how many of them have a node, and how many it needs.
    sub_groups: Sequence[tuple[str, int, int]] = ()
    #: By heading.
    facts: Mapping[str, GroupFact] = attrs.field(factory=dict)


def summaries(
    directory: GroupDirectory,
    *,
    selector: str = "",
    readers: Mapping[str, FactReader] = _NO_READERS,
    listed: Collection[ResourceKind] | None = None,
) -> list[Summary]:
    """Return the groups that match a label selector, in the order of namespace and name.

    The labels of a group are those of its object, or of any member if it has no object. `listed`: see `summary_of`.
    """
    compiled = parse_label_selector(selector)
    found = (
        state for state in directory if not selector or any(compiled.matches(each.labels) for each in labelled(state))
    )
    return sorted(
        (summary_of(state, directory.dialect_of(state), readers, listed) for state in found),
        key=lambda summary: summary.state.id,
    )


def labelled(state: GroupState) -> Iterable[KubeObject]:
    """Return the objects whose labels count as the group's."""
    return _pods(state) if state.object is None else (state.object,)


def summary_of(
    state: GroupState,
    dialect: Dialect,
    readers: Mapping[str, FactReader] = _NO_READERS,
    listed: Collection[ResourceKind] | None = None,
) -> Summary:
    """Return the summary of a group; `dialect` is the one that it is declared in.

    `listed` are the kinds that may be listed; None stands for all.
    """
    is_unread = listed is not None and not state.group.is_declared and not {*dialect.kinds} <= {*listed}
    facts = {heading: reader.fact(state) for heading, reader in readers.items()}
    members = sorted(map(member_of, _pods(state)), key=lambda member: member.pod.name)
    waiting = sum(1 for member in members if member.intended)
    status = getattr(state.object, "status", None)
    written = "" if status is None else dialect.status.phase(status)
    pending = state.child_count - len(state.bound) - waiting
    return Summary(
        state=state,
        dialect=dialect,
        members=members,
        phase=written or _computed_phase(state),
        phase_is_written=bool(written),
        bound=len(state.bound),
        waiting=waiting,
        pending=pending,
        is_unread=is_unread,
        reason=_reason(state, members, facts.values(), is_unread=is_unread)
        if waiting or pending or not members
        else "",
        sub_groups=() if state.parts is None else state.parts.leaves(each.pod.uid for each in members if each.node),
        facts=facts,
    )


def _pods(state: GroupState) -> Iterable[Pod]:
    yield from state.children()
    yield from state.succeeded.values()
    yield from state.failed.values()


def member_of(pod: Pod) -> Member:
    """Return the state of a pod as a member of its group."""
    if pod.is_terminal:
        return Member(pod=pod, state=pod.status.phase, node=pod.node_name)
    leaves = pod.metadata.deletion_timestamp is not None
    if pod.node_name:
        state = "Running" if pod.status.phase == "Running" else "Bound"
        return Member(pod=pod, state="Terminating" if leaves else state, node=pod.node_name)
    condition = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
    intended = pod.status.nominated_node_name
    state = "Gated" if pod.spec.scheduling_gates else "Waiting" if intended else "Pending"
    return Member(
        pod=pod,
        state="Terminating" if leaves else state,
        node=intended,
        intended=bool(intended),
        message=condition.message if condition is not None and condition.status != "True" else "",
    )


def _computed_phase(state: GroupState) -> str:
    """Return the phase that Koordinator's controller would reach for these members."""
    facts = state.facts()
    # A minimum of 0 is no constraint, but a group without members has not begun.
    facts = attrs.evolve(facts, min=max(facts.min, 1))
    phase = ""
    for _ in range(_MOST_STEPS):
        phase = koordinator_phase(phase, facts)
    return str(phase)


def _reason(state: GroupState, members: Sequence[Member], facts: Iterable[GroupFact], *, is_unread: bool) -> str:
    """Return why members are not bound."""
    best = most_informative(members)
    if best is not None:
        return best.message
    untried = next((each.pod.scheduler_name for each in members if each.state in {"Pending", "Waiting"}), "")
    group, there = state.group, state.child_count
    for fact in facts:
        if fact.reason:
            return fact.reason
    if is_unread:
        return "the minimum is not known: PodGroups of this kind may not be listed"
    if not group.is_declared:
        return "the minimum is not known: there is no PodGroup of this name"
    lacking = "" if state.parts is None else state.parts.lacking_members()
    if lacking:
        return f"too few members of sub-groups exist: {lacking}"
    if group.is_gang and there + len(state.succeeded) < group.min:
        return f"{there} of at least {group.min} members exist"
    return f"not tried yet by {untried}" if untried else ""


def most_informative(members: Iterable[Member]) -> Member | None:
    """Return a member with the most frequent message, if possible one that is no echo; None without any message."""
    told = [each for each in members if each.message]
    counts = Counter(each.message for each in told)
    return min(told, key=lambda each: (_is_echo(each.message), -counts[each.message], each.message), default=None)


def _is_echo(message: str) -> bool:
    return _INTRODUCTION.sub("", message).startswith(_ECHOES)
