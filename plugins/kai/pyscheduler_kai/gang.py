"""A gang: a job, or a part of a job, with its tree of sub-groups.

A *leaf* contains tasks (pods), and needs `minimum` of them. A *branch* contains leaves and other branches.

Source of the rules: KAI-Scheduler, `api/podgroup_info` and `plugins/subgrouporder`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyscheduler_batch.contract import ACTIVE, ALIVE, ALLOCATED, TaskState
from pyscheduler_kai.topology import Constraint, constraint_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from pyscheduler.api import Pod
    from pyscheduler_batch.contract import Amounts, Job, SubGroup, Task

__all__ = [
    "DEFAULT_LEAF",
    "USED",
    "ZERO",
    "Branch",
    "Gang",
    "Leaf",
    "Quantities",
    "TaskRules",
    "add",
    "in_order",
    "subtract",
]

#: CPU in millicores, memory in bytes, whole or fractional GPUs.
Quantities = tuple[float, float, float]
ZERO: Final[Quantities] = (0.0, 0.0, 0.0)

#: Tasks that hold resources now or soon.
USED: Final = ACTIVE | {TaskState.RELEASING}
DEFAULT_LEAF: Final = "default"
#: So many sums are kept; then all are forgotten.
_MOST_SUMS: Final = 10_000


def add(left: Quantities, right: Quantities) -> Quantities:
    """Return the sum of two amounts."""
    return (left[0] + right[0], left[1] + right[1], left[2] + right[2])


def subtract(left: Quantities, right: Quantities) -> Quantities:
    """Return the difference of two amounts."""
    return (left[0] - right[0], left[1] - right[1], left[2] - right[2])


class TaskRules:
    """The rules about tasks that gangs take from the policies.

    `key` orders the tasks of a job; `first_pod` returns the first of some pods without a task, and is None if the order
    does not follow from the pods alone. `quantities` converts a request. `virtual`: the UIDs of the tasks that the open
    statement evicted: they are to be placed again. `starts_whole`: whether only sub-groups are placed of which enough
    tasks exist. Differs from KAI-Scheduler, which also places those that there are; in simulations of it we do so, too.
    """

    __slots__ = ("_sums", "first_pod", "key", "quantities", "starts_whole", "virtual")

    def __init__(
        self,
        key: Callable[[Task], tuple[float | str, ...]],
        first_pod: Callable[[Sequence[Pod]], Pod] | None,
        quantities: Callable[[Amounts], Quantities],
        virtual: Collection[str],
    ) -> None:
        self.key = key
        self.first_pod = first_pod
        self.quantities = quantities
        self.virtual = virtual
        self.starts_whole = False
        self._sums: dict[tuple[Quantities, int], Quantities] = {}

    def times(self, request: Amounts, count: int) -> Quantities:
        """Return what so many tasks request together: one tuple for equal sums."""
        one = self.quantities(request)
        found = self._sums.get((one, count))
        if found is None:
            if len(self._sums) > _MOST_SUMS:
                self._sums.clear()
            # Requests are whole numbers: the product is exactly the sum.
            found = self._sums[one, count] = (one[0] * count, one[1] * count, one[2] * count)
        return found


class Leaf:
    """A sub-group that holds tasks."""

    __slots__ = ("active", "constraint", "depth", "minimum", "name", "tasks", "used")

    def __init__(
        self, name: str, minimum: int, depth: int, tasks: list[Task], constraint: Constraint | None = None
    ) -> None:
        self.name = name
        self.constraint = constraint
        self.minimum = minimum
        #: Number of branches above the leaf.
        self.depth = depth
        #: In the order in which they are placed.
        self.tasks = tasks
        self.active = 0
        self.used = 0

    def count(self) -> None:
        """Count the tasks anew."""
        if len(self.tasks) == 1:
            state = self.tasks[0].state
            self.active, self.used = int(state in ACTIVE), int(state in USED)
            return
        self.active = sum(task.state in ACTIVE for task in self.tasks)
        self.used = sum(task.state in USED for task in self.tasks)

    @property
    def members(self) -> int:
        """Return how many tasks are placed."""
        return self.active

    @property
    def needed(self) -> int:
        """Return how many tasks must be placed."""
        return self.minimum

    def is_ready(self) -> bool:
        """Return whether enough tasks exist to be placed."""
        alive = sum(task.state in ALIVE and task.state != TaskState.GATED for task in self.tasks)
        return alive >= self.minimum


class Branch:
    """A sub-group that holds sub-groups, or the job itself."""

    __slots__ = ("children", "constraint", "minimum", "name")

    def __init__(
        self, name: str, minimum: int | None, children: list[Leaf | Branch], constraint: Constraint | None = None
    ) -> None:
        self.name = name
        self.constraint = constraint
        #: How many children must be satisfied; None means all.
        self.minimum = minimum
        self.children = children

    @property
    def tasks(self) -> list[Task]:
        """Return all tasks below."""
        return [task for child in self.children for task in child.tasks]

    @property
    def members(self) -> int:
        """Return how many children are satisfied."""
        return sum(child.members >= child.needed for child in self.children)

    @property
    def needed(self) -> int:
        """Return how many children must be satisfied."""
        return len(self.children) if self.minimum is None else self.minimum

    def is_ready(self) -> bool:
        """Return whether enough children have enough tasks to be placed."""
        return sum(child.is_ready() for child in self.children) >= self.needed


def _sub_group_key(member: Leaf | Branch) -> tuple[int, int, float, str]:
    """Return the key of a sub-group among its siblings: unsatisfied first, then by the part of the minimum it has."""
    has, needs = member.members, member.needed
    if has < needs:
        return (0, 0, 0.0, member.name)
    if needs == 0:
        return (1, 1, float(has), member.name)
    return (1, 0, has / needs, member.name)


def in_order(branch: Branch) -> list[Leaf | Branch]:
    """Return the children of a branch in the order of placement."""
    if len(branch.children) < 2:
        return branch.children
    return sorted(branch.children, key=_sub_group_key)


class Gang:
    """A job or a part of it, as actions order, place and evict it.

    Parts and others with a tree of their own are frozen: their counts are those of the moment they were made.
    """

    __slots__ = (
        "_allocated",
        "_counted",
        "_is_frozen",
        "_is_plain",
        "_requested",
        "_rules",
        "_to_place",
        "is_part",
        "job",
        "leaves",
        "root",
    )

    def __init__(
        self, job: Job, rules: TaskRules, tree: tuple[Branch, list[Leaf]] | None = None, *, is_part: bool = False
    ) -> None:
        """Begin with a tree of sub-groups and its leaves, which stays; None: it is made of the job when asked for."""
        self.job = job
        self._rules = rules
        self.is_part = is_part
        self._is_frozen = tree is not None
        self._counted = -1
        self._to_place: list[Task] | None = None
        self._requested: Quantities | None = None
        self._allocated: Quantities | None = None
        self.root: Branch
        self.leaves: list[Leaf]
        #: Whether the counts of the job say all that orders ask for: its tasks are alike, and have not been looked at.
        self._is_plain = False
        if tree is not None:
            self.root, self.leaves = tree
            self._refresh()
        elif job.alike is not None and not job.sub_groups and job.min_sub_group is None and not job.topology:
            self._is_plain = rules.first_pod is not None and not job.counts[TaskState.RELEASING]

    def __getattr__(self, name: str) -> Any:
        """Make the tree when it is first asked for; then it is made of attributes."""
        if name not in {"root", "leaves"}:
            raise AttributeError(name)
        self._is_plain = False
        self.root, self.leaves = _tree_of(self.job, self._rules)
        self._counted = -1
        self._refresh()
        return self.root if name == "root" else self.leaves

    def part(self, tasks: Iterable[Task]) -> Gang:
        """Return the gang of some tasks of this one, with the same minima."""
        return self._copy_of(tasks, is_part=True)

    def frozen(self) -> Gang:
        """Return the gang as it is now, with what it asks for, whatever happens to the job later."""
        result = self._copy_of(self.tasks, is_part=self.is_part)
        result.requested()
        return result

    def _copy_of(self, tasks: Iterable[Task], *, is_part: bool) -> Gang:
        leaves: list[Leaf] = []
        root = _copy(self.root, {task.uid for task in tasks}, leaves)
        return Gang(self.job, self._rules, (root, leaves), is_part=is_part)

    def lowered_part(self, tasks: Iterable[Task]) -> Gang:
        """Return the gang of some tasks of this one, whose minima are not above what it holds."""
        result = self.part(tasks)
        for leaf in result.leaves:
            if leaf.tasks:
                leaf.minimum = min(leaf.minimum, len(leaf.tasks))
        _lower(result.root)
        return result

    def _refresh(self) -> None:
        """Forget what was computed before the job changed."""
        if self._counted == self.job.changes or (self._is_frozen and self._counted >= 0):
            return
        self._counted = self.job.changes
        self._to_place = None
        self._requested = None
        self._allocated = None
        for leaf in self.leaves:
            leaf.count()

    @property
    def tasks(self) -> list[Task]:
        """Return all tasks, leaf by leaf."""
        if len(self.leaves) == 1:
            return self.leaves[0].tasks
        return [task for leaf in self.leaves for task in leaf.tasks]

    @property
    def active(self) -> int:
        """Return how many tasks are placed."""
        if self._is_plain:
            return self.job.count(ACTIVE)
        self._refresh()
        return self.leaves[0].active if len(self.leaves) == 1 else sum(leaf.active for leaf in self.leaves)

    @property
    def used(self) -> int:
        """Return how many tasks hold resources, evicted ones included."""
        self._refresh()
        return sum(leaf.used for leaf in self.leaves)

    def has_topology(self) -> bool:
        """Return whether the job, or a sub-group of it, has a topology constraint."""
        return not self._is_plain and _has_constraint(self.root)

    def is_simple(self) -> bool:
        """Return whether the job has neither sub-groups nor a topology constraint."""
        return self.root.children == self.leaves[:1] and not _has_constraint(self.root)

    def is_ready(self) -> bool:
        """Return whether enough tasks exist to place the gang."""
        if self._is_plain:
            return self.job.count(ALIVE) - self.job.counts[TaskState.GATED] >= self.job.min_member
        return self.root.is_ready()

    def is_satisfied(self) -> bool:
        """Return whether every leaf has its minimum of tasks that hold resources."""
        self._refresh()
        return all(leaf.used >= leaf.minimum for leaf in self.leaves)

    def used_by_leaf(self) -> list[tuple[Leaf, int]]:
        """Return each leaf and how many tasks hold resources; those whose bindings failed, once they are bound."""
        self._refresh()
        lost = self.job.lost
        if not lost:
            return [(leaf, leaf.used) for leaf in self.leaves]
        return [(leaf, sum(task.state in USED and task.uid not in lost for task in leaf.tasks)) for leaf in self.leaves]

    def is_elastic(self) -> bool:
        """Return whether some leaf has more tasks than it needs."""
        if len(self.leaves) == 1:
            return self.leaves[0].minimum < len(self.leaves[0].tasks)
        return any(leaf.minimum < len(leaf.tasks) for leaf in self.leaves)

    def elastic_state(self) -> int:
        """Return 0 if some leaf is below its minimum, 1 if all are exactly there, 2 otherwise."""
        if self._is_plain:
            above = self.active - self.job.min_member
            return 0 if above < 0 else min(above, 1) + 1
        self._refresh()
        state = 1
        for leaf in self.leaves:
            if leaf.active < leaf.minimum:
                return 0
            if leaf.active > leaf.minimum:
                state = 2
        return state

    def allocated(self) -> Quantities:
        """Return what the tasks on idle resources hold; promised tasks do not count."""
        self._refresh()
        if self._allocated is None:
            total = ZERO
            for task in self.tasks:
                if task.state in ALLOCATED:
                    total = add(total, self._rules.quantities(task.request))
            self._allocated = total
        return self._allocated

    def is_placeable(self, task: Task, *, for_real: bool) -> bool:
        """Return whether a task waits for a node; in a simulation, evicted tasks do as well."""
        if task.state == TaskState.PENDING:
            return True
        return not for_real and task.state == TaskState.RELEASING and task.uid in self._rules.virtual

    def to_place(self, *, for_real: bool = False) -> list[Task]:
        """Return the tasks to place next: what the minima lack, or one more of a satisfied gang.

        The answer is kept until a task of the job changes its state, as in the original.
        """
        self._refresh()
        if not self._to_place:
            self._to_place = self._from_branch(self.root, for_real=for_real)
        return self._to_place

    def requested(self) -> Quantities:
        """Return the amounts of the tasks to place next."""
        job = self.job
        if self._is_plain and job.alike is not None and not job.counts[TaskState.RELEASING]:
            if self._counted != job.changes or self._requested is None:
                lacking = job.min_member - self.active
                self._requested = self._rules.times(job.alike, min(max(lacking, 1), job.counts[TaskState.PENDING]))
                self._counted = job.changes
            return self._requested
        self._refresh()
        if self._requested is None:
            total = ZERO
            for task in self.to_place():
                if self.is_placeable(task, for_real=False):
                    total = add(total, self._rules.quantities(task.request))
            self._requested = total
        return self._requested

    def has_pending(self) -> bool:
        """Return whether a task waits for a node."""
        if self._is_plain or not self.job.counts[TaskState.PENDING]:
            return self.job.counts[TaskState.PENDING] > 0
        return any(task.state == TaskState.PENDING for leaf in self.leaves for task in leaf.tasks)

    def pending(self) -> list[Task]:
        """Return the tasks that wait for a node."""
        return [task for task in self.tasks if task.state == TaskState.PENDING]

    def pending_requests(self) -> Iterable[Amounts]:
        """Return what the tasks that wait for a node request, most arrays once."""
        if self._is_plain and self.job.alike is not None:
            return [self.job.alike] if self.has_pending() else []
        return {id(task.request): task.request for task in self.pending()}.values()

    def first_pending(self) -> str:
        """Return `namespace/name` of the first task that waits for a node; there must be one."""
        if self._is_plain and self._rules.first_pod is not None:
            return self._rules.first_pod(self.job.pods((TaskState.PENDING,))).key
        return next(task for task in self.tasks if task.state == TaskState.PENDING).key

    def _from_branch(self, branch: Branch, *, for_real: bool) -> list[Task]:
        children = in_order(branch)
        if self._rules.starts_whole and not self.is_part and len(children) > 1:
            children = [child for child in children if self._may_start(child, for_real=for_real)]
        if branch.members < branch.needed:
            found: list[Task] = []
            for child in children[: branch.needed]:
                if child.members < child.needed:
                    found += self._from_member(child, for_real=for_real)
            return found
        for child in children:
            tasks = self._from_member(child, for_real=for_real)
            if tasks:
                return tasks
        return []

    def _may_start(self, member: Leaf | Branch, *, for_real: bool) -> bool:
        """Return whether a sub-group has its minimum, or enough tasks to be placed."""
        if isinstance(member, Branch):
            able = sum(self._may_start(child, for_real=for_real) for child in member.children)
            return able >= member.needed
        more = sum(self.is_placeable(task, for_real=for_real) for task in member.tasks)
        return member.active + more >= member.minimum

    def _from_member(self, member: Leaf | Branch, *, for_real: bool) -> list[Task]:
        if isinstance(member, Branch):
            return self._from_branch(member, for_real=for_real)
        most = member.minimum - member.active if member.active < member.minimum else 1
        found: list[Task] = []
        for task in member.tasks:
            if len(found) == most:
                break
            if self.is_placeable(task, for_real=for_real):
                found.append(task)
        return found

    def to_evict(self) -> list[Task]:
        """Return the unit to evict next: a surplus task, a surplus sub-group, or all that is left."""
        self._refresh()
        if len(self.leaves) == 1:
            leaf = self.leaves[0]
            return _surplus_task(leaf) or _active_tasks(leaf)
        return _surplus(self.root) or _active_tasks(self.root)


def _tree_of(job: Job, rules: TaskRules) -> tuple[Branch, list[Leaf]]:
    """Return the tree of a job's sub-groups, and its leaves."""
    tasks: dict[str, list[Task]] = {}
    for task in sorted(job.tasks.values(), key=rules.key) if len(job.tasks) > 1 else job.tasks.values():
        tasks.setdefault(task.sub_group or DEFAULT_LEAF, []).append(task)
    leaves: list[Leaf] = []
    if job.sub_groups:
        return _tree(job, tasks, leaves), leaves
    leaves.append(Leaf(DEFAULT_LEAF, job.min_member, 1, tasks.get(DEFAULT_LEAF, [])))
    return Branch("", job.min_sub_group, [*leaves], constraint_of(job.topology)), leaves


def _tree(job: Job, tasks: Mapping[str, list[Task]], leaves: list[Leaf]) -> Branch:
    """Return the tree of a job's sub-groups; its leaves are appended to `leaves`."""
    below: dict[str, list[SubGroup]] = {}
    for group in job.sub_groups.values():
        below.setdefault(group.parent, []).append(group)

    def build(group: SubGroup, depth: int) -> Leaf | Branch:
        if group.name in below:
            children = [build(child, depth + 1) for child in below[group.name]]
            return Branch(group.name, group.min_sub_group, children, constraint_of(group.topology))
        leaf = Leaf(group.name, group.min_member, depth, tasks.get(group.name, []), constraint_of(group.topology))
        leaves.append(leaf)
        return leaf

    children = [build(group, 1) for group in below.get("", [])]
    return Branch("", job.min_sub_group, children, constraint_of(job.topology))


def _copy(branch: Branch, wanted: Collection[str], leaves: list[Leaf]) -> Branch:
    """Return a copy of a tree with some of its tasks; its leaves are appended to `leaves`."""
    children: list[Leaf | Branch] = []
    for child in branch.children:
        if isinstance(child, Branch):
            children.append(_copy(child, wanted, leaves))
        else:
            kept = [task for task in child.tasks if task.uid in wanted]
            leaf = Leaf(child.name, child.minimum, child.depth, kept, child.constraint)
            leaves.append(leaf)
            children.append(leaf)
    return Branch(branch.name, branch.minimum, children, branch.constraint)


def _has_constraint(branch: Branch) -> bool:
    if branch.constraint is not None:
        return True
    return any(
        _has_constraint(child) if isinstance(child, Branch) else child.constraint is not None
        for child in branch.children
    )


def _lower(branch: Branch) -> bool:
    """Lower the minima of branches to the number of children with tasks; return whether there are any."""
    filled = 0
    for child in branch.children:
        filled += _lower(child) if isinstance(child, Branch) else bool(child.tasks)
    if branch.minimum is not None:
        branch.minimum = min(branch.minimum, filled)
    return filled > 0


def _surplus(branch: Branch) -> list[Task]:
    """Return a task or a sub-group that the branch does not need, the last in order first."""
    has = branch.members
    if has == 0:
        return []
    members: Sequence[Leaf | Branch] = in_order(branch)[::-1]
    if _has_surplus(branch):
        for member in members:
            found = _surplus(member) if isinstance(member, Branch) else _surplus_task(member)
            if found:
                return found
    if branch.needed < has:
        for member in members:
            found = _active_tasks(member)
            if found:
                return found
    return []


def _has_surplus(member: Leaf | Branch) -> bool:
    """Return whether a sub-group, or one below it, has more than it needs."""
    if member.members > member.needed:
        return True
    return isinstance(member, Branch) and any(_has_surplus(child) for child in member.children)


def _surplus_task(leaf: Leaf) -> list[Task]:
    """Return the last task of a leaf that has more tasks than it needs."""
    return _active_tasks(leaf)[:1] if leaf.active > leaf.minimum else []


def _active_tasks(member: Leaf | Branch) -> list[Task]:
    """Return all placed tasks below a sub-group, the last in order first."""
    if isinstance(member, Branch):
        return [task for child in member.children for task in _active_tasks(child)]
    return [task for task in reversed(member.tasks) if task.state in ACTIVE]
