"""Read the sub-groups (parts of a group with minimums of their own) from the PodGroup objects of KAI and Volcano."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pyscheduler.api import LabelSelector, SelectorError, compile_label_selector
from pyscheduler.podgroup.fields import Problem
from pyscheduler.podgroup.sub_groups import (
    TOO_DEEP,
    ByLabel,
    ByPolicy,
    ByRole,
    Policy,
    SubGroup,
    SubGroups,
    SubGroupTree,
    path_problem,
)
from pyscheduler.podgroup.values import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kube_objects.requirements import CompiledSelector
    from pyscheduler.podgroup.wire import GroupObject

__all__ = ["NO_SUB_GROUPS", "kai_sub_groups", "volcano_sub_groups"]

NO_SUB_GROUPS: Final = SubGroups()
"""The sub-groups of most objects: none."""

_MAX_INT32: Final = 2**31 - 1


def kai_sub_groups(group: GroupObject) -> SubGroups:
    """Return the tree of `spec.subGroups`. Sub-groups with children, and the group itself, ignore their `minMember`.

    Source: KAI-Scheduler, `subgroup_info.FromPodGroup`.
    """
    spec = group.spec
    problems: list[Problem] = []
    entries = _items(spec.sub_groups, "spec.subGroups", problems)
    if not entries:
        return NO_SUB_GROUPS if not problems else SubGroups(problems=tuple(problems))
    found: dict[str, tuple[str, int, int | None]] = {}
    is_usable = True
    for index, entry in enumerate(entries):
        where = f"spec.subGroups[{index}]"
        said = _mapping(entry, where, problems)
        name = said.get("name")
        if not isinstance(name, str) or not name or name in found:
            problems.append(Problem(f"{where}.name", _text(name), "is empty or the name of an earlier sub-group"))
            is_usable = False
            continue
        parent = said.get("parent") or ""
        minimum = _integer(said.get("minMember"), f"{where}.minMember", problems, absent=0)
        some = said.get("minSubGroup")
        chosen = None if some is None else _integer(some, f"{where}.minSubGroup", problems, absent=1)
        found[name] = (parent if isinstance(parent, str) else _text(parent), minimum, chosen)
    parents = {name: parent for name, (parent, _, _) in found.items()}
    for name, parent in parents.items():
        problem = path_problem(name, parents)
        if problem:
            problems.append(Problem(f'parent of sub-group "{name}"', parent, problem))
            is_usable = False
        if problem == TOO_DEEP:
            break
    if not is_usable:
        return SubGroups(problems=tuple(problems), is_usable=False)
    below: dict[str, list[str]] = {}
    for name, (parent, _, _) in found.items():
        below.setdefault(parent, []).append(name)

    def build(name: str) -> SubGroup:
        _, minimum, chosen = found[name]
        children = tuple([build(child) for child in below.get(name, ())])
        return SubGroup(name, chosen if children else minimum, children)

    some = spec.min_sub_group
    chosen = None if some is None else _integer(some, "spec.minSubGroup", problems, absent=1)
    root = SubGroup("", chosen, tuple([build(name) for name in below[""]]))
    tree = SubGroupTree(root, ByLabel(), is_closed=True)
    return SubGroups(trees=(tree,), replaces_minimum=True, problems=tuple(problems))


def volcano_sub_groups(group: GroupObject) -> SubGroups:
    """Return the trees of `spec.subGroupPolicy` and `spec.minTaskMember`.

    Minimums of roles do not count if they add up to more than `spec.minMember`. Source: Volcano, `api/job_info.go`.
    """
    spec = group.spec
    if spec.sub_group_policy is None and spec.min_task_member is None:
        return NO_SUB_GROUPS
    problems: list[Problem] = []
    trees = [*_policies(spec.sub_group_policy, problems)]
    roles = {
        role: _integer(minimum, f"spec.minTaskMember.{role}", problems, absent=0)
        for role, minimum in _mapping(spec.min_task_member, "spec.minTaskMember", problems).items()
    }
    minimum = spec.min_member if isinstance(spec.min_member, int) else 0
    if roles and sum(roles.values()) <= minimum:
        leaves = tuple([SubGroup(role, least) for role, least in roles.items()])
        trees.append(SubGroupTree(SubGroup("", None, leaves), ByRole()))
    return SubGroups(trees=tuple(trees), problems=tuple(problems))


def _policies(value: object, problems: list[Problem]) -> Sequence[SubGroupTree]:
    nodes: list[SubGroup] = []
    policies: list[Policy] = []
    for index, entry in enumerate(_items(value, "spec.subGroupPolicy", problems)):
        where = f"spec.subGroupPolicy[{index}]"
        said = _mapping(entry, where, problems)
        name = said.get("name")
        selector = _selector(said.get("labelSelector"), f"{where}.labelSelector", problems)
        keys = tuple(map(str, _items(said.get("matchLabelKeys"), f"{where}.matchLabelKeys", problems)))
        size = _integer(said.get("subGroupSize"), f"{where}.subGroupSize", problems, absent=1, least=1)
        needed = _integer(said.get("minSubGroups"), f"{where}.minSubGroups", problems, absent=0)
        policy = Policy(name if isinstance(name, str) else _text(name), selector, keys)
        nodes.append(SubGroup(policy.name, needed, size=size))
        policies.append(policy)
    if not nodes:
        return ()
    return (SubGroupTree(SubGroup("", None, tuple(nodes)), ByPolicy(tuple(policies))),)


def _selector(value: object, where: str, problems: list[Problem]) -> CompiledSelector | None:
    """Return a selector, None if there is none. One that cannot be used selects nothing."""
    if value is None:
        return None
    try:
        return compile_label_selector(msgspec.convert(value, LabelSelector))
    except (msgspec.ValidationError, SelectorError, RecursionError):
        problems.append(Problem(where, _text(value), "is no label selector; it selects no pods"))
        return compile_label_selector(None)


# --- values: each reader adds a `Problem` for a value that does not count


def _text(value: object) -> str:
    return value if isinstance(value, str) else shown(value)


def _items(value: object, where: str, problems: list[Problem]) -> Sequence[Any]:
    if value is None or isinstance(value, (list, tuple)):
        return value or ()
    problems.append(Problem(where, _text(value), "is not a list; it does not count"))
    return ()


def _mapping(value: object, where: str, problems: list[Problem]) -> Mapping[str, Any]:
    if value is None or isinstance(value, Mapping):
        return value or {}
    problems.append(Problem(where, _text(value), "is not a map; it does not count"))
    return {}


def _integer(value: object, where: str, problems: list[Problem], *, absent: int, least: int = 0) -> int:
    """Return an integer from `least` to 2**31 - 1; a value outside counts as the nearest bound, a word as 1."""
    if value is None:
        return absent
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        problems.append(Problem(where, _text(value), "is not an integer; 1 counts"))
        return 1
    bounded = min(max(value, least), _MAX_INT32)
    if bounded != value:
        problems.append(Problem(where, str(value), f"is not between {least} and {_MAX_INT32}; {bounded} counts"))
    return bounded
