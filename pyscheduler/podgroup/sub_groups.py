"""Sub-groups: parts of a group of pods; each has its own minimum of pods, and can have sub-groups.

For example, a job has a sub-group of one leader and a sub-group of four workers.

Sources: KAI-Scheduler `api/podgroup_info/subgroup_info`; Volcano `api/sub_job_info.go`, `api/job_info.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kube_objects.requirements import CompiledSelector
    from pyscheduler.api import Pod
    from pyscheduler.podgroup.fields import Problem

__all__ = [
    "SUB_GROUP_LABEL",
    "TASK_SPEC",
    "TOO_DEEP",
    "ByLabel",
    "ByPolicy",
    "ByRole",
    "Naming",
    "Policy",
    "SubGroup",
    "SubGroupTree",
    "SubGroups",
    "cut_off",
    "least",
    "missing",
    "path_problem",
    "shortage",
]

SUB_GROUP_LABEL: Final = "kai.scheduler/subgroup-name"
"""The label by which pods of KAI name their sub-group."""

TASK_SPEC: Final = "volcano.sh/task-spec"
"""The annotation, or label, by which pods of Volcano name their role."""

TOO_DEEP: Final = "is more than 64 levels below the group; remove levels"
"""The message of `path_problem` about a sub-group that is too deep. All below it are, too: report one of them."""

#: A tree has at most so many levels below the group.
_DEEPEST: Final = 64
#: So many sub-groups are named in one message.
_NAMED: Final = 4


@attrs.frozen
class SubGroup:
    """A node of a tree. The root is the group itself; its name is empty."""

    name: str
    #: How many members it needs; with children, how many of them must have their minimum. None: all children.
    minimum: int | None = 0
    children: tuple[SubGroup, ...] = ()
    #: Where the labels of pods make the children: how many members each child needs. 0: the children are given.
    size: int = 0

    @property
    def is_branch(self) -> bool:
        """Return True if it has children, not members."""
        return bool(self.children) or self.size > 0

    @property
    def needed(self) -> int:
        """Return how many members, or children with their minimum, it needs."""
        return len(self.children) if self.minimum is None else self.minimum

    def with_leaves(self, names: Iterable[str]) -> SubGroup:
        """Return the tree with the sub-groups that pods make; `names` are those of all sub-groups with members."""
        if self.size:
            prefix = f"{self.name}/"
            made = sorted(name for name in names if name.startswith(prefix))
            return attrs.evolve(self, children=tuple([SubGroup(name, self.size) for name in made]))
        known = [*names]
        children = [child.with_leaves(known) for child in self.children]
        if all(made is given for made, given in zip(children, self.children, strict=True)):
            return self
        return attrs.evolve(self, children=tuple(children))


class Naming(Protocol):
    """Names the sub-group of a pod."""

    def leaf(self, pod: Pod) -> str:
        """Return the name of the pod's sub-group; "" for none."""
        ...


@attrs.frozen
class ByLabel:
    """KAI: pods name their sub-group in a label."""

    def leaf(self, pod: Pod) -> str:
        """Return the name in the label."""
        return pod.labels.get(SUB_GROUP_LABEL, "")


@attrs.frozen
class ByRole:
    """Volcano: the role of a pod."""

    def leaf(self, pod: Pod) -> str:
        """Return the pod's role."""
        return pod.annotations.get(TASK_SPEC) or pod.labels.get(TASK_SPEC, "")


@attrs.frozen
class Policy:
    """A policy of Volcano: pods that the selector matches are together if they have equal values of all labels `keys`.

    Without keys it matches no pod, as in Volcano. Without a selector it matches all pods.
    """

    name: str
    selector: CompiledSelector | None
    keys: tuple[str, ...]

    def leaf(self, pod: Pod) -> str:
        """Return the name of the pod's sub-group in this policy; "" if it has none."""
        if not self.keys or (self.selector is not None and not self.selector.matches(pod.labels)):
            return ""
        values = [pod.labels.get(key, "") for key in self.keys]
        return f"{self.name}/{'-'.join(values)}" if all(values) else ""


@attrs.frozen
class ByPolicy:
    """Volcano: the first policy that matches a pod names its sub-group."""

    policies: tuple[Policy, ...]

    def leaf(self, pod: Pod) -> str:
        """Return the name of the pod's sub-group."""
        return next((name for policy in self.policies if (name := policy.leaf(pod))), "")


@attrs.frozen
class SubGroupTree:
    """The tree of a group, and how pods name their place in it."""

    root: SubGroup
    naming: Naming
    #: Whether each pod must name a sub-group of the tree to be scheduled.
    is_closed: bool = False


@attrs.frozen(kw_only=True)
class SubGroups:
    """The sub-groups of a group, as an object declares them; the first tree decides the order of placement."""

    trees: tuple[SubGroupTree, ...] = ()
    #: Whether the tree alone is the group's minimum (KAI); otherwise the group's own minimum counts as well.
    replaces_minimum: bool = False
    problems: tuple[Problem, ...] = ()
    #: False if the sub-groups make no tree: then the group is not declared.
    is_usable: bool = True


def path_problem(name: str, parents: Mapping[str, str]) -> str:
    """Return why the way up from a sub-group does not end at the top, or "". `parents`: by name, "" at the top."""
    seen = {name}
    parent = first = parents[name]
    while parent:
        if parent not in parents:
            return "does not exist; add that sub-group or remove the parent" if parent == first else ""
        if parent in seen:
            return "closes a cycle; give one of these sub-groups another parent"
        if len(seen) == _DEEPEST:
            return TOO_DEEP
        seen.add(parent)
        parent = parents[parent]
    return ""


# --- minimums; `counts` are members by the name of their sub-group, and the tree has all sub-groups that pods make


def missing(node: SubGroup, counts: Mapping[str, int]) -> int:
    """Return how many more members the minimum of a sub-group needs at least."""
    if not node.is_branch:
        return max(node.needed - counts.get(node.name, 0), 0)
    lacking = sorted([missing(child, counts) for child in node.children])
    # Children that do not exist yet would need all their members.
    absent = max(node.needed - len(lacking), 0) * max(node.size, 1)
    return sum(lacking[: node.needed]) + absent


def least(node: SubGroup) -> int:
    """Return the smallest number of members that can be the minimum of a sub-group."""
    return missing(node, {})


def cut_off(node: SubGroup, counts: Mapping[str, int]) -> frozenset[str]:
    """Return the names of the sub-groups with members which are, or are below, a sub-group without its minimum."""
    if missing(node, counts):
        return frozenset(_leaves(node))
    return frozenset[str]().union(*(cut_off(child, counts) for child in node.children))


def _leaves(node: SubGroup) -> Iterable[str]:
    if not node.is_branch:
        yield node.name
    for child in node.children:
        yield from _leaves(child)


def shortage(node: SubGroup, counts: Mapping[str, int]) -> str:
    """Return which sub-groups are below their minimum, such as `decode 2/4`; "" if the node has its minimum."""
    if not missing(node, counts):
        return ""
    if not node.is_branch:
        return f"{node.name} {counts.get(node.name, 0)}/{node.needed}"
    short = [text for child in node.children if (text := shortage(child, counts))]
    complete = len(node.children) - len(short)
    named = ", ".join([*short[:_NAMED], *([f"{len(short) - _NAMED} more"] if len(short) > _NAMED else [])])
    if node.needed == len(node.children) and named:
        return named
    whose = f"{node.name}: " if node.name else ""
    return f"{whose}{complete} of {node.needed} sub-groups" + (f" ({named})" if named else "")
