"""Run the scheduler on the objects of a cluster dump, in memory, until the cluster is at rest or a virtual day is over.

At rest means: no pod was created, placed or deleted for ten minutes of virtual time, and no pod waits at Permit.
"""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import msgspec

from kube_objects.times import seconds_of
from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.errors import StatusError
from kube_testserver.resources.builtin import PODS
from kube_testserver.resources.open_definitions import open_definition
from kube_testserver.virtual_time import VirtualClock
from kube_testserver.workloads.table import WORKLOAD_KINDS
from pyscheduler.api import DecodeError, Pod, decode
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.framework.errors import APIError, ConfigError
from pyscheduler.scheduler.assembly import Settings, build
from pyscheduler_lab.simulation.group_objects import definitions
from pyscheduler_lab.simulation.queue_plan import batch_definitions
from pyscheduler_lab.simulation.replay_objects import new_namespace
from pyscheduler_lab.simulation.scheduler_process import SchedulerProcess, namespaces_of_plugins
from pyscheduler_lab.whatif.change import controller_kind, recreated
from pyscheduler_lab.whatif.dump import is_terminal, key_of, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kube_testserver.store import Change
    from pyscheduler.runtime.assembly.registry import Registry
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.scheduler.scheduler import Scheduler
    from pyscheduler_lab.whatif.dump import Object
    from pyscheduler_lab.whatif.profiles import Chosen

__all__ = ["Placement", "Runner", "Waiting"]

#: Without a change for so long, in virtual seconds, the cluster is at rest: twice the time after which every
#: unschedulable pod is retried.
_QUIET_SECONDS: Final = 600.0
_STEP_SECONDS: Final = 30.0
#: The longest run, in virtual seconds: pods that evict each other again and again never come to rest.
_LONGEST_SECONDS: Final = 86_400.0
#: A controller creates an evicted pod again after this time, in seconds.
_RECREATE_SECONDS: Final = 1.0
_REQUESTS_PER_SECOND: Final = 5000
#: The kinds that other objects refer to; they are stored first.
_FIRST: Final = ("Namespace", "PriorityClass", "StorageClass", "DeviceClass", "Node")
_DEFINITION: Final = "CustomResourceDefinition"
_ALREADY_EXISTS: Final = 409
_EVICTED: Final = "DisruptionTarget"


@attrs.frozen
class Waiting:
    """Why a pod has no node: the reason of its condition, and the message."""

    reason: str
    message: str


@attrs.frozen(kw_only=True)
class Placement:
    """The nodes of the pods at rest; keys are `namespace/name`."""

    #: The node of each pod that has one.
    nodes: Mapping[str, str]
    #: Why each other pod waits.
    waiting: Mapping[str, Waiting]
    #: The pods that the scheduler evicted, and why. Pods without a controller among them do not exist any more.
    evicted: Mapping[str, str]
    #: The pods that have ended, and why: their node rejected them, for example.
    ended: Mapping[str, str]
    #: Return True for a pod that a plugin creates and deletes, because it holds resources for other pods.
    holds_for_others: Callable[[Object], bool]
    #: Virtual seconds until the last change.
    seconds: float
    #: Whether the cluster came to rest.
    is_at_rest: bool


@attrs.frozen(kw_only=True)
class Runner:
    """Runs the scheduler of one configuration; each call of `place` begins with a new cluster."""

    chosen: Chosen
    registry: Registry
    gates: Mapping[str, bool]
    seed: int = 0

    def place(self, objects: Sequence[Object]) -> Placement:
        """Return the placement of these objects at rest.

        Raises `ConfigError` for a profile that cannot be built, and for an object that the API server refuses.
        """
        return asyncio.run(_Run(self, objects).place())


class _Run:
    """One run on one cluster."""

    def __init__(self, runner: Runner, objects: Sequence[Object]) -> None:
        self._runner = runner
        self._objects = objects
        self._clock = VirtualClock(epoch=_newest(objects) + 1.0) if _newest(objects) else VirtualClock()
        self._rng = random.Random(f"what if/{runner.seed}")
        self._cluster = EmbeddedCluster(clock=self._clock, rng=self._rng, pod_groups=True)
        self._process = SchedulerProcess(self._clock, self._build)
        self._evicted: dict[str, str] = {}
        self._pods = self._cluster.registry.collection(PODS)
        #: The place in the log of changes up to which pods were looked at.
        self._position = 0
        self._began = self._last_change = self._clock.now()

    async def place(self) -> Placement:
        scheduler = self._process.build()
        self._store_all([*map(new_namespace, namespaces_of_plugins(scheduler))])
        lifecycle = self._cluster.lifecycle()
        lifecycle.start()
        self._position = self._pods.position_after(self._cluster.store.version)
        stop_listening = self._pods.listen(self._look)
        try:
            await self._process.begin()
            is_at_rest = await self._until_rest(scheduler)
            return self._placement(scheduler, is_at_rest=is_at_rest)
        finally:
            stop_listening()
            lifecycle.stop()
            await self._process.end()

    def _build(self) -> Scheduler:
        runner = self._runner
        config = runner.chosen.config
        # Requests take virtual time only. Without a limit, all pods would be bound at one instant.
        connection = attrs.evolve(config.client_connection, qps=_REQUESTS_PER_SECOND, burst=_REQUESTS_PER_SECOND)
        return build(
            attrs.evolve(config, extenders=(), client_connection=connection),
            InProcessTransport(self._cluster.router),
            self._clock,
            # As `pyscheduler run --seed`: equal nodes are chosen alike.
            random.Random(runner.seed),
            registry=runner.registry,
            settings=Settings(feature_gates=runner.gates),
        )

    # --- the objects -----------------------------------------------------------------------------

    def _store_all(self, namespaces: Sequence[Object]) -> None:
        objects = self._objects
        # A definition that this server does not accept is replaced by one that keeps every field.
        for definition in self._definitions():
            self._define(definition)
        others = [one for one in objects if one["kind"] not in {_DEFINITION, "Pod"}]
        others.sort(key=lambda one: _FIRST.index(one["kind"]) if one["kind"] in _FIRST else len(_FIRST))
        for one in (*namespaces, *others, *_missing_classes(objects)):
            self._store(one)
        for pod in objects:
            if pod["kind"] == "Pod":
                self._store(self._scheduled(pod))

    def _define(self, definition: Object) -> None:
        try:
            self._cluster.add(_unversioned(definition))
        except APIError:
            return  # served already

    def _definitions(self) -> Iterator[Object]:
        """Yield the definitions of the dump, of groups and of queues, then of each kind that is not served by then."""
        yield from (one for one in self._objects if one["kind"] == _DEFINITION)
        yield from definitions(self._runner.registry.dialect_table(), self._cluster)
        yield from batch_definitions()
        plurals = {(row.group, row.kind): row.plural for row in WORKLOAD_KINDS}
        versions: dict[tuple[str, str], dict[str, bool]] = {}
        for one in self._objects:
            group, _, version = str(one.get("apiVersion") or "v1").rpartition("/")
            if self._cluster.table.find_kind(one.get("apiVersion") or "", one["kind"]) is None and group:
                is_namespaced = bool(one["metadata"].get("namespace"))
                versions.setdefault((group, one["kind"]), {})[version] = is_namespaced
        for (group, kind), found in versions.items():
            plural = plurals.get((group, kind)) or _plural(kind)
            yield open_definition(group, kind, plural, [*found], namespaced=any(found.values()))

    def _scheduled(self, pod: Object) -> Object:
        """Return a pod with the `schedulerName` that it gets."""
        name = self._runner.chosen.scheduler_name
        return {**pod, "spec": {**pod["spec"], "schedulerName": name}} if name else pod

    def _store(self, one: Object) -> None:
        """Store an object with its uid, its time of creation and its status.

        Claims and owner references have uids; batch systems sort jobs by their time of creation.
        """
        cluster = self._cluster
        registry = cluster.registry
        try:
            resource = cluster.resource_of(one)
        except ConfigError as error:
            raise ConfigError(f"{'/'.join(filter(None, key_of(one)))}: {error}") from error
        metadata = one["metadata"]
        namespace = (metadata.get("namespace") or "default") if resource.namespaced else ""
        uid = str(metadata.get("uid") or "")
        try:
            record = registry.create(resource, namespace, _unversioned(one), uid=uid)
        except StatusError as error:
            if error.status == _ALREADY_EXISTS:
                return  # every server has it, such as a namespace
            if not uid:
                raise ConfigError(f"{'/'.join(filter(None, key_of(one)))}: {error}") from error
            # A server has accepted it before. But snapshots have few fields of an object.
            cluster.plant(_unversioned({**one, "metadata": {**metadata, "namespace": namespace}}))
            return
        stored = record.decode()
        if metadata.get("creationTimestamp"):
            stored["metadata"]["creationTimestamp"] = metadata["creationTimestamp"]
        if one.get("status"):
            stored["status"] = {**(stored.get("status") or {}), **_copy(one["status"])}
        registry.put(resource, record, stored)

    # --- what happens ----------------------------------------------------------------------------

    def _look(self) -> None:
        """Look at the changes since the last call. The store calls this in the middle of a write."""
        changes = self._pods.read(self._position, 1)
        self._position += len(changes)
        for change in changes:
            self._pod_changed(change)

    def _pod_changed(self, change: Change) -> None:
        """Note placements and evictions; let an evicted pod be created again, a moment later."""
        if change.type == "MODIFIED":
            before = change.old.fields if change.old is not None else {}
            if before.get("spec.nodeName") == change.record.fields.get("spec.nodeName"):
                return
        self._last_change = self._clock.now()
        if change.type != "DELETED":
            return
        pod = {"apiVersion": "v1", "kind": "Pod", **change.record.decode()}
        if is_terminal(pod):
            return
        self._evicted[name_of(pod)] = _why_evicted(pod)
        if controller_kind(pod):
            self._clock.call_later(_RECREATE_SECONDS, partial(self._store, recreated(pod)))

    async def _until_rest(self, scheduler: Scheduler) -> bool:
        """Let time pass until the cluster is at rest; return False if it does not come to rest."""
        while self._clock.now() - self._began < _LONGEST_SECONDS:
            await self._clock.advance(_STEP_SECONDS)
            self._process.require()
            is_quiet = self._clock.now() - self._last_change >= _QUIET_SECONDS
            if is_quiet and not any(True for _ in scheduler.waiting_pods.all()):
                return True
        return False

    # --- what came of it -------------------------------------------------------------------------

    def _placement(self, scheduler: Scheduler, *, is_at_rest: bool) -> Placement:
        nodes: dict[str, str] = {}
        waiting: dict[str, Waiting] = {}
        ended: dict[str, str] = {}
        for pod in self._cluster.pods():
            key = name_of(pod)
            if is_terminal(pod):
                ended[key] = _why_ended(pod["status"])
            elif pod["spec"].get("nodeName"):
                nodes[key] = pod["spec"]["nodeName"]
            else:
                waiting[key] = _why_waiting(pod, scheduler)
        return Placement(
            nodes=nodes,
            waiting=waiting,
            evicted=self._evicted,
            ended=ended,
            holds_for_others=partial(_holds_for_others, [*scheduler.profiles.values()]),
            seconds=self._last_change - self._began,
            is_at_rest=is_at_rest,
        )


def _holds_for_others(profiles: Sequence[Profile], pod: Object) -> bool:
    try:
        read = decode(Pod, msgspec.json.encode(pod))
    except DecodeError:
        return False
    return any(profile.is_needed_by_others(read) is not None for profile in profiles)


def _plural(kind: str) -> str:
    name = kind.lower()
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"


def _newest(objects: Iterable[Object]) -> float:
    """Return the newest time of creation, in seconds since 1970; 0 if there is none."""
    return max((seconds_of(one["metadata"].get("creationTimestamp")) for one in objects), default=0.0)


def _unversioned(one: Object) -> Object:
    """Return a copy of the object without its version; a creation must have none."""
    copy = _copy(one)
    copy["metadata"].pop("resourceVersion", None)
    copy["metadata"].pop("managedFields", None)
    return copy


def _copy(value: Object) -> Object:
    copied: Object = msgspec.json.decode(msgspec.json.encode(value))
    return copied


def _missing_classes(objects: Sequence[Object]) -> Iterable[Object]:
    """Yield the PriorityClasses that pods name and that the dump lacks, with the priority of these pods."""
    known = {one["metadata"]["name"] for one in objects if one["kind"] == "PriorityClass"}
    for one in objects:
        spec = (one.get("spec") or {}) if one["kind"] == "Pod" else {}
        name = spec.get("priorityClassName")
        if name and name not in known and spec.get("priority") is not None:
            known.add(name)
            yield {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": spec["priority"],
            }


def _why_ended(status: Object) -> str:
    return ": ".join(filter(None, (status.get("reason") or "it ended", status.get("message"))))


def _why_evicted(pod: Object) -> str:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    message = next((one.get("message") for one in conditions if one.get("type") == _EVICTED), "")
    return f"evicted: {message}" if message else "evicted by the scheduler"


def _why_waiting(pod: Object, scheduler: Scheduler) -> Waiting:
    name = pod["spec"].get("schedulerName") or ""
    if name not in scheduler.profiles:
        return Waiting("OtherScheduler", f"no profile has the schedulerName {name}; add one, or give --profile")
    conditions = (pod.get("status") or {}).get("conditions") or ()
    refusals = (one for one in conditions if one.get("type") == "PodScheduled" and one.get("status") == "False")
    refusal: Object = next(refusals, {})
    gates = ", ".join(str(gate.get("name")) for gate in pod["spec"].get("schedulingGates") or ())
    if gates:
        return Waiting("SchedulingGated", f"scheduling gates: {gates}")
    return Waiting(str(refusal.get("reason") or "Unknown"), str(refusal.get("message") or ""))
