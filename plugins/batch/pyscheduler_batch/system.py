"""The base class of batch systems: a subclass has the rules of one system, such as KAI, for the plugin `Batch`.

A Python package registers its subclass under a name (`registry.add_system`). A profile chooses the system by this name,
in the arg `preset` of `Batch`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

from pyscheduler.podgroup import created_at, kinds_of
from pyscheduler_batch.model.batch_plugin import NodeUse
from pyscheduler_batch.model.build import build_queues
from pyscheduler_batch.model.job_spec import JobSpec
from pyscheduler_batch.node_pools import EVERYTHING, NodePool
from pyscheduler_batch.preset import Preset
from pyscheduler_quota.controller import WAIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyscheduler.api import Node, Pod, ResourceKind
    from pyscheduler.framework import Handle
    from pyscheduler.podgroup import GroupState
    from pyscheduler_batch.batch_args import BatchArgs, PolicyEntry
    from pyscheduler_batch.dialects import JobDialect, QueueDialect
    from pyscheduler_batch.model.axis import ResourceAxis
    from pyscheduler_batch.model.queue_spec import QueueSpec
    from pyscheduler_batch.model.queue_table import QueueTable
    from pyscheduler_batch.model.session import Session
    from pyscheduler_batch.status.reports import Reports

__all__ = ["NodeUse", "Preset", "System"]


class System:
    """One batch system at work for one profile; subclasses name its parts."""

    #: The name of the system, its defaults, and the names that its configuration knows.
    preset: ClassVar[Preset]
    #: Where the class of each action and of each policy is, as `module:Name`; imported when a profile uses it.
    actions: ClassVar[Mapping[str, str]] = {}
    policies: ClassVar[Mapping[str, str]] = {}
    #: The policies without which the actions cannot run.
    needed_policies: ClassVar[Sequence[str]] = ()
    #: The class of the sessions.
    session: ClassVar[str] = "pyscheduler_batch.model.session:Session"
    #: Who reads its groups and its queues.
    jobs: ClassVar[JobDialect]
    queues: ClassVar[QueueDialect]
    #: By policy, the kind of objects that the policy reads.
    read_by: ClassVar[Mapping[str, ResourceKind]] = {}
    #: Those of them whose changes the system follows itself.
    followed_apart: ClassVar[frozenset[ResourceKind]] = frozenset()
    #: What it says in statuses, events and metrics.
    reports: ClassVar[Reports]
    #: The resources of its groups and queues in whose annotations it keeps what is no status.
    annotated: ClassVar[Sequence[str]] = ("podgroups",)

    #: The reason of the event on pods that wait.
    pod_event: ClassVar[str] = "FailedScheduling"
    #: Whether a job in a queue with children has a row in the queue table. In Volcano it stops its tree of queues.
    inner_queues: ClassVar[bool] = True
    #: Whether a gang of which one task loses its promised node keeps the promises to the others.
    keeps_parts: ClassVar[bool] = False
    #: Whether a group without pods takes part until it has completed: its controller creates pods for it later.
    counts_empty_groups: ClassVar[bool] = False
    #: The resources that have a column in any case.
    always_counted: ClassVar[Sequence[str]] = ()
    #: Whether nodes, queues and groups belong to pools, of which a profile has one.
    has_pools: ClassVar[bool] = False
    #: Whether queues are a tree in any case, and those below a broken one are left out. Otherwise they are a tree only
    #: if a flag says so, and a broken tree stops all of its queues.
    has_queue_tree: ClassVar[bool] = False
    #: Whether GPUs of resource claims count in queues, and whether shares may depend on past use.
    counts_claimed_gpus: ClassVar[bool] = False
    counts_past_use: ClassVar[bool] = False
    #: Whether pods share GPUs by annotations.
    shares_gpus: ClassVar[bool] = False
    #: Whether sub-groups are a tree, of which each leaf needs its pods; pods that are gated or have succeeded count for
    #: no minimum then.
    has_sub_group_tree: ClassVar[bool] = False
    #: The label by which pods without a group name their queue, unless a configuration says another; "" if none does.
    queue_label: ClassVar[str] = ""
    #: The label of the pool of nodes, queues and groups, the same way; "": none have pools.
    node_pool_label: ClassVar[str] = ""
    #: The queue above those that name no parent: it need not exist unless queues are a tree. "" if there is none.
    root_queue: ClassVar[str] = ""
    #: Whether the priority of a pod without a group is the pod's own; otherwise that of its class, as of a group.
    pods_have_own_priority: ClassVar[bool] = True
    #: The value of a job whose priority class does not exist, where the cluster has no default class.
    default_priority: ClassVar[int] = 0
    #: Jobs of this priority and above may not be evicted unless they say otherwise.
    protected_from: ClassVar[float] = math.inf

    def __init__(self, handle: Handle, args: BatchArgs) -> None:
        self.handle = handle
        self.args = args
        #: The kinds that the policies of the first configuration read; a later one cannot add to them.
        self.kinds_read = frozenset(self.kinds_of_policies(args).values())
        self.pool: NodePool = EVERYTHING

    # Its configuration

    @classmethod
    def profile(cls, profile: Mapping[str, object], args: BatchArgs, gates: Mapping[str, bool]) -> Mapping[str, object]:
        """Return the profile that a file stands for, as the arguments of policies change its plugins."""
        return profile

    @classmethod
    def action_arguments(cls, args: BatchArgs, action: str) -> Mapping[str, str]:
        """Return the arguments of an action, with settings of the configuration that its actions read."""
        return args.action_arguments.get(action, {})

    @classmethod
    def policy_arguments(cls, args: BatchArgs, entry: PolicyEntry) -> Mapping[str, str]:
        """Return the arguments of a policy, the same way."""
        return entry.arguments

    @classmethod
    def queue_label_of(cls, args: BatchArgs) -> str:
        """Return the label by which pods without a group name their queue."""
        return cls.queue_label if args.queue_label is None else args.queue_label

    @classmethod
    def node_pool_label_of(cls, args: BatchArgs) -> str:
        """Return the label of pools; "" if all objects are the profile's."""
        return cls.node_pool_label if args.node_pool_label is None else args.node_pool_label

    @classmethod
    def waits_for_quota(cls, args: BatchArgs) -> bool:
        """Return whether jobs are held for lack of quota in their namespace."""
        return args.quota_reservation == WAIT

    # What it reads

    @classmethod
    def kinds(cls, args: BatchArgs) -> Sequence[ResourceKind]:
        """Return the kinds of its groups and queues, and those that the policies of a configuration read."""
        return (*kinds_of([cls.jobs.groups]), *cls.queues.kinds, *cls.kinds_of_policies(args).values())

    @classmethod
    def kinds_of_policies(cls, args: BatchArgs) -> Mapping[str, ResourceKind]:
        """Return, by policy of a configuration, the kind that it reads."""
        return {policy: kind for policy, kind in cls.read_by.items() if args.policy(policy) is not None}

    def follow(self, args: BatchArgs) -> None:
        """Go by these args from now on; what they let the system read is what the first ones did."""
        self.args = args
        if self.has_pools:
            self.pool = NodePool(self.node_pool_label_of(args), args.node_pool)

    @property
    def spreads_gpus(self) -> bool:
        """Return whether pods that share GPUs are spread over them."""
        return False

    def subscribe(self, on_change: Callable[[str | None], object]) -> None:
        """Follow the kinds of `read_by`: call `on_change` with None if queues and jobs must be read anew.

        With a text that is the key of no job, only a pass becomes due.
        """

        def changed(*_: object) -> None:
            on_change(None)

        for kind in self.kinds_read - self.followed_apart:
            self.handle.lister(kind.type).add_event_handler(on_add=changed, on_update=changed, on_delete=changed)

    def reading(self, kind: ResourceKind) -> list[Any]:
        """Return all objects of a kind of `read_by`; [] if no policy reads it."""
        return [*self.handle.lister(kind.type)] if kind in self.kinds_read else []

    # Sessions and queues

    def prepare(self, session: Session) -> None:
        """Give a new session what the system's actions and policies look for in it."""

    def queue_table(
        self, axis: ResourceAxis, specs: Iterable[QueueSpec], taken: set[str]
    ) -> tuple[QueueTable, Mapping[str, str]]:
        """Return the table of queues, and what is wrong with others; `taken` are names of other profiles' queues."""
        if self.has_queue_tree:
            return build_queues(axis, specs, taken=taken)
        return build_queues(
            axis, specs, is_tree=self.args.has_queue_tree, keep_broken=True, unset_limit=math.nan, taken=taken
        )

    def node_use(self, node: Node) -> NodeUse:
        """Return what a node is to the sessions."""
        return self.pool.node_use(node) if self.has_pools else NodeUse.FULL

    # Jobs

    @classmethod
    def without_succeeded(cls, spec: JobSpec, living: Iterable[str], succeeded: Iterable[str]) -> JobSpec:
        """Return a description without what its succeeded pods have done; both are the sub-groups of pods."""
        return spec

    @classmethod
    def spec_of_pod(cls, pod: Pod) -> JobSpec:
        """Return the description of a pod without a group, before the profile's settings."""
        return JobSpec(
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            dialect=cls.jobs.name,
            created=created_at(pod),
            queue=cls.jobs.queue(pod) or cls.jobs.default_queue,
            preemptible=cls.jobs.preemptible(pod),
        )

    def queue_of(self, pod: Pod) -> str:
        """Return the queue that a pod without a group names, or ""."""
        return self.jobs.queue(pod)

    def completed(
        self,
        spec: JobSpec,
        pods: Sequence[Pod],
        row: JobDialect | None = None,
        state: GroupState | None = None,
    ) -> JobSpec:
        """Return a description with what the job's pods add to it; `row` and `state` are None without a group."""
        return spec

    def held_back(self, spec: JobSpec) -> str:
        """Return why a group is not tried although nothing is wrong with it, or ""."""
        return ""
