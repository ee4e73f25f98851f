"""`PodGrouper`: makes a pod group for each workload, and makes the workload's pods members of the group.

Pods of the plugin's profile wait at PreEnqueue until they are grouped, because a pod of a gang must not be scheduled
alone.

Source: KAI-Scheduler, `pkg/podgrouper/pod_controller.go`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from pyscheduler.api import Namespace, Pod
from pyscheduler.framework import (
    APIError,
    ClusterEventWithHint,
    ConfigError,
    EnqueueExtensions,
    PolicyRule,
    PreEnqueuePlugin,
    Status,
    TransportError,
)
from pyscheduler.framework.extensions import Extensions
from pyscheduler_podgrouper.args import PodGrouperArgs
from pyscheduler_podgrouper.cluster_lookup import ClusterLookup
from pyscheduler_podgrouper.contract import split_version
from pyscheduler_podgrouper.fields import GroupingError
from pyscheduler_podgrouper.generic import POD_GROUP_ANNOTATION, SUB_GROUP_LABEL
from pyscheduler_podgrouper.groups_writer import GroupsWriter, Member, selects
from pyscheduler_podgrouper.kinds import LINKS, PODGROUPS, defaults_kind, kinds_of_row, owner_kind, supporting_kinds
from pyscheduler_podgrouper.table import GROUPERS, GrouperTable, third_party_rows

if TYPE_CHECKING:
    from pyscheduler.api import KubeObject, ObjectMeta, ResourceKind
    from pyscheduler.framework import Handle

__all__ = ["PodGrouper"]

_log = logging.getLogger(__name__)

#: How long pods are collected before they are grouped, in seconds.
_COLLECT_SECONDS: Final = 0.05
#: The pause after a failure, doubled with each failure of a pod in a row.
_RETRY_SECONDS: Final = 1.0
_RETRY_SECONDS_AT_MOST: Final = 60.0
#: How many pods are planned before others may use the event loop.
_TURN: Final = 50
_WARNING: Final = "PodGrouperWarning"


def _owner_kinds() -> list[ResourceKind]:
    """Return the kinds of workloads, each once; pods are watched anyway."""
    kinds = (kind for row in GROUPERS if row.kind != "Pod" for kind in kinds_of_row(row))
    return list(dict.fromkeys((*kinds, *LINKS)))


class PodGrouper(PreEnqueuePlugin, EnqueueExtensions):
    """Make a pod group for each workload, by the rule of its kind."""

    name: ClassVar[str] = "PodGrouper"
    args_type: ClassVar[type | None] = PodGrouperArgs
    watches: ClassVar[Sequence[ResourceKind]] = (*_owner_kinds(), *supporting_kinds(has_namespaces=False))

    @classmethod
    def watched_kinds(cls, args: object) -> Sequence[ResourceKind]:
        """Return the kinds of the table, of `extraOwners`, and those that the settings need."""
        given = args if isinstance(args, PodGrouperArgs) else PodGrouperArgs()
        extra = [
            owner_kind(*split_version(each.api_version), each.kind, each.plural, namespaced=each.namespaced)
            for each in given.extra_owners
        ]
        config_map, where = given.defaults_config_map, given.defaults_config_map_namespace
        defaults = [defaults_kind(config_map, where)] if config_map and where else []
        support = supporting_kinds(has_namespaces=bool(given.namespace_label_selector))
        return tuple(dict.fromkeys((*_owner_kinds(), *extra, *support, *defaults)))

    @classmethod
    def extension_kinds(cls, extensions: object) -> Sequence[ResourceKind]:
        """Return the kinds of the rows that distributions offer."""
        if not isinstance(extensions, Extensions):
            return ()
        return [kind for row in third_party_rows(extensions) for kind in kinds_of_row(row)]

    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        if handle is None or not isinstance(args, PodGrouperArgs):
            raise ConfigError("PodGrouper needs its args and a handle, which the scheduler gives it")
        self._args: PodGrouperArgs = args
        try:
            rows = third_party_rows(Extensions.of(handle))
        except ConfigError:
            rows = []  # `extension_kinds` has reported it
        self._table = GrouperTable((*GROUPERS, *rows))
        kinds = (*self.watched_kinds(args), *(kind for row in rows for kind in kinds_of_row(row)))
        self.watches = kinds  # type: ignore[misc]  # of a class, as a rule; args and rows count here
        self.rbac = _rules(kinds)  # type: ignore[misc]  # the same
        self._names = frozenset(args.scheduler_names or (handle.profile_name,))
        self._pods = handle.lister(Pod)
        self._namespaces = handle.lister(Namespace) if args.namespace_label_selector else None
        #: Names of namespaces that have pods and that no watch has shown yet.
        self._unseen: set[str] = set()
        self._lookup = ClusterLookup(handle, args, kinds)
        self._writer = GroupsWriter(handle, args, failed=self._failed, grouped=self._grouped, written=self._written)
        #: Pods to be grouped, by namespace and name; None while this scheduler does not lead.
        self._due: dict[tuple[str, str], None] | None = None
        self._wake = asyncio.Event()
        #: By uid of a pod, the names of the group and the sub-group that were planned last.
        self._planned_groups: dict[str, tuple[str, str]] = {}
        #: UIDs of pods whose plans depend on nodes.
        self._followers: set[str] = set()
        #: UIDs of pods whose group is there; the annotation follows.
        self._released: set[str] = set()
        #: By uid of a pod, how often it failed in a row.
        self._failures: dict[str, int] = {}
        self._failed_total = handle.metrics.counter("podgrouper_failures_total", "How often a pod could not be grouped")
        failing = handle.metrics.gauge("podgrouper_failing_pods", "Pods that cannot be grouped")
        failing.set_function(lambda: len(self._failures))
        self._pods.add_event_handler(on_add=self._enqueue, on_update=self._updated, on_delete=self._deleted)
        if self._namespaces is not None:
            self._namespaces.add_event_handler(on_add=self._namespace_added, on_update=self._namespace_updated)
        handle.lister(PODGROUPS.type).add_event_handler(on_delete=self._group_deleted)

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold a pod back that is to be grouped and has no group yet."""
        return Status.unresolvable("waiting for the pod group of its workload") if self._is_held(pod) else None

    def _is_held(self, pod: Pod) -> bool:
        return not (POD_GROUP_ANNOTATION in pod.annotations or pod.uid in self._released) and self._is_ours(pod)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return no event: the plugin activates pods. An event of any pod would be looked at for each that waits."""
        return ()

    async def run(self) -> None:
        """Group all pods, and each pod that changes, until cancelled."""
        self._due = {}
        try:
            for pod in self._pods:
                self._enqueue(pod)
            async with asyncio.TaskGroup() as tasks:
                self._writer.start(tasks)
                while True:
                    await self._wake.wait()
                    await self.handle.clock.sleep(_COLLECT_SECONDS)
                    self._wake.clear()
                    due, self._due = self._due, {}
                    await self._group(due, tasks)
        finally:
            self._due = None

    async def _group(self, due: Mapping[tuple[str, str], None], tasks: asyncio.TaskGroup) -> None:
        """Plan the groups of pods, and hand them to the writer together."""
        members: list[Member] = []
        for number, (namespace, name) in enumerate(due, start=1):
            pod = self._pods.get(name, namespace)
            if pod is not None and self._is_ours(pod):
                member = await self._planned(pod)
                members += () if member is None else (member,)
            if number % _TURN == 0:
                await asyncio.sleep(0)
        self._lookup.forget_reads()
        # Another watch may have shown a newer pod, or none, while plans were made.
        members = [each for each in members if self._is_current(each.pod)]
        for each in members:
            sub_group = each.plan.sub_group_of(each.pod) or each.pod.labels.get(SUB_GROUP_LABEL, "")
            self._planned_groups[each.pod.uid] = (each.plan.name, sub_group)
            (self._followers.add if each.plan.follows_nodes else self._followers.discard)(each.pod.uid)
        self._writer.put(members, tasks)

    async def _planned(self, pod: Pod) -> Member | None:
        """Return the pod as a member of its group; None if it has none."""
        try:
            plan = await self._lookup.plan(pod, self._table)
        except (GroupingError, APIError, TransportError) as error:
            self._failed(pod, error)
            return None
        except Exception as error:  # a bug in a rule, maybe a third party's, must not stop the others  # noqa: BLE001
            _log.exception("Rule of pod failed pod=%s", pod.key)
            self._failed(pod, GroupingError(f"the rule failed: {type(error).__name__}: {error}"))
            return None
        if plan is None:
            self._written(pod)
            return None
        return Member(pod, plan)

    # --- which pods

    def _is_ours(self, pod: Pod) -> bool:
        if pod.scheduler_name not in self._names or not selects(pod.labels, self._args.pod_label_selector):
            return False
        if self._namespaces is None:
            return True
        namespace = self._namespaces.get(pod.namespace)
        if namespace is None:
            self._unseen.add(pod.namespace)
        return namespace is not None and selects(namespace.labels, self._args.namespace_label_selector)

    def _is_current(self, pod: Pod) -> bool:
        found = self._pods.get(pod.name, pod.namespace)
        return found is not None and found.uid == pod.uid

    def _enqueue(self, pod: Pod) -> None:
        if self._due is not None and pod.scheduler_name in self._names:
            self._due[pod.namespace, pod.name] = None
            self._wake.set()

    def _updated(self, old: Pod, new: Pod) -> None:
        """Group a pod again if something changed that rules read, or if somebody else changed its membership."""
        if not new.node_name and self._is_held(old) and not self._is_held(new):
            # Later, when the queue has the new pod, too.
            self.handle.clock.call_later(0.0, lambda: self.handle.activate([new]))
        if self._due is None:
            return
        moved = _membership(old) != _membership(new) != self._planned_groups.get(new.uid)
        is_placed = old.node_name != new.node_name and new.uid in self._followers
        if moved or is_placed or _differ_for_rules(old.metadata, new.metadata):
            self._enqueue(new)

    def _deleted(self, pod: Pod) -> None:
        self._failures.pop(pod.uid, None)
        self._planned_groups.pop(pod.uid, None)
        self._released.discard(pod.uid)
        self._followers.discard(pod.uid)

    def _namespace_added(self, namespace: Namespace) -> None:
        if namespace.name in self._unseen:
            self._unseen.discard(namespace.name)
            self._namespace_seen(namespace)

    def _namespace_updated(self, old: Namespace, new: Namespace) -> None:
        selector = self._args.namespace_label_selector
        if selects(old.labels, selector) is not selects(new.labels, selector):
            self._namespace_seen(new)

    def _namespace_seen(self, namespace: Namespace) -> None:
        """Group the waiting pods of a namespace that is selected from now on; schedule those of another one."""
        waiting = [pod for pod in self._pods if pod.namespace == namespace.name and not pod.node_name]
        for pod in waiting:
            self._enqueue(pod)
        self.handle.activate([pod for pod in waiting if pod.scheduler_name in self._names and not self._is_ours(pod)])

    def _group_deleted(self, group: KubeObject) -> None:
        """Make a group again if its pods wait for a node: without it, they would wait for ever."""
        for pod in self._lookup.members(group.namespace, group.name):
            if not (pod.node_name or pod.is_terminating):
                self._enqueue(pod)

    # --- failures

    def _failed(self, pod: Pod, error: Exception) -> None:
        """Report why a pod is not grouped, and try it again later."""
        if not self._is_current(pod):
            return
        self._failed_total.add()
        failures = self._failures.get(pod.uid, 0)
        self._failures[pod.uid] = failures + 1
        note = " ".join(str(error).split())
        self.handle.event_recorder.event(pod, type="Warning", reason=_WARNING, action="Grouping", note=note)
        if not failures:
            _log.warning("Pod cannot be grouped pod=%s err=%s", pod.key, note)
        pause = min(_RETRY_SECONDS * 2.0 ** min(failures, 16), _RETRY_SECONDS_AT_MOST)
        self.handle.clock.call_later(pause, lambda: self._retry(pod))

    def _grouped(self, pods: Sequence[Pod]) -> None:
        """Let the pods of a group that is there be scheduled, as far as they still exist."""
        new = [pod for pod in pods if pod.uid not in self._released and self._is_current(pod)]
        self._released.update(pod.uid for pod in new)
        self.handle.activate(new)

    def _written(self, pod: Pod) -> None:
        """Forget the failures of a pod that is as it should be."""
        self._failures.pop(pod.uid, None)

    def _retry(self, pod: Pod) -> None:
        if pod.uid in self._failures:
            self._enqueue(pod)


def _membership(pod: Pod) -> tuple[str, str]:
    return pod.annotations.get(POD_GROUP_ANNOTATION, ""), pod.labels.get(SUB_GROUP_LABEL, "")


def _differ_for_rules(old: ObjectMeta, new: ObjectMeta) -> bool:
    """Return whether something differs that rules read of a pod; what this plugin itself writes is not among it."""
    if old.uid != new.uid or old.deletion_timestamp != new.deletion_timestamp:
        return True
    if old.owner_references != new.owner_references:
        return True
    return _differ(old.labels, new.labels, SUB_GROUP_LABEL) or _differ(
        old.annotations, new.annotations, POD_GROUP_ANNOTATION
    )


def _differ(old: Mapping[str, str], new: Mapping[str, str], own: str) -> bool:
    """Return whether two maps differ, but for the key that this plugin writes."""
    if old == new:
        return False
    return {**old, own: ""} != {**new, own: ""}


def _rules(kinds: Sequence[ResourceKind]) -> tuple[PolicyRule, ...]:
    """Return the permissions beside watches: to write groups and pods, and to read owners that a watch lacks."""
    owners = [kind for kind in kinds if kind not in supporting_kinds(has_namespaces=True) and not kind.field_selector]
    return (
        PolicyRule(api_groups=(PODGROUPS.group,), resources=(PODGROUPS.plural,), verbs=("get", "create", "patch")),
        PolicyRule(api_groups=("",), resources=("pods",), verbs=("get", "patch")),
        *(
            PolicyRule(api_groups=(kind.group,), resources=(kind.plural,), verbs=("get",))
            for kind in dict.fromkeys(owners)
        ),
    )
