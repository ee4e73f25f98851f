"""A simulated cluster in virtual time: an API server in this process, the scheduler, and a simulated kubelet."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.patching.requests import PatchOptions, apply_patch
from kube_testserver.schema.unknown_fields import FieldCheck
from kube_testserver.serving.faults import Fault
from kube_testserver.virtual_time import VirtualClock
from pyscheduler.api import DecodeError, decode
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.config.load import loads
from pyscheduler.framework.errors import APIError
from pyscheduler.scheduler.assembly import build
from pyscheduler_lab.simulation.group_objects import amounts, definitions, group_manifest, group_patch, texts
from pyscheduler_lab.simulation.pod_history import Observations, set_name
from pyscheduler_lab.simulation.scenario_config import SCHEDULER_NAME
from pyscheduler_lab.simulation.scheduler_process import SchedulerProcess, StepError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyscheduler.podgroup import Dialect
    from pyscheduler.runtime.assembly.registry import Registry
    from pyscheduler.scheduler.scheduler import Scheduler
    from pyscheduler_lab.simulation.scenario import (
        CompletePods,
        CreatePodGroup,
        CreatePods,
        DeleteNode,
        DeletePodGroup,
        DeletePods,
        FailBind,
        NodeSpec,
        Restart,
        UpdateNode,
        UpdatePodGroup,
        UpdatePods,
    )
    from pyscheduler_lab.simulation.scenario_config import ScenarioConfig

__all__ = ["SimulatedCluster", "StepError"]

_GATE: Final = "pyscheduler.io/scenario"
#: A status that no client retries.
_BIND_REFUSED: Final = 400


class SimulatedCluster:
    """One cluster: `start` it, execute steps, `settle` and `advance`, `close` it."""

    def __init__(self, config: ScenarioConfig, *, registry: Registry, seed: str) -> None:
        self.clock = VirtualClock()
        self._config = config
        self._registry = registry
        self._rng = random.Random(seed)
        self.cluster = EmbeddedCluster(clock=self.clock, rng=random.Random(self._rng.getrandbits(64)), pod_groups=True)
        self._table = registry.dialect_table()
        self.seen = Observations(self.cluster, self._table)
        self._lifecycle = self.cluster.lifecycle()
        self._began = self.clock.now()
        self._process = SchedulerProcess(self.clock, self._build)
        #: The dialects of groups and pods, by namespace and name.
        self._groups: dict[tuple[str, str], Dialect] = {}
        self._pods: dict[tuple[str, str], Dialect] = {}
        #: Called whenever the cluster is at rest, before time passes.
        self.at_rest: Callable[[], object] = lambda: None

    @property
    def time(self) -> float:
        """Return virtual seconds since the beginning."""
        return self.clock.now() - self._began

    # --- life ------------------------------------------------------------------------------------

    async def start(self, nodes: Iterable[NodeSpec]) -> None:
        """Create the cluster and start the scheduler; raise `ConfigError` for a profile that cannot be built."""
        self._process.build()
        self.cluster.add(*definitions(self._table, self.cluster))
        self.add_nodes(nodes)
        self.seen.start()
        self._lifecycle.start()
        await self._begin()

    def _build(self) -> Scheduler:
        config = self._config
        return build(
            loads(config.text, source="the scenario's profile", gates=config.settings.feature_gates),
            InProcessTransport(self.cluster.router),
            self.clock,
            random.Random(self._rng.getrandbits(64)),
            registry=self._registry,
            settings=config.settings,
        )

    async def _begin(self) -> None:
        self.seen.scheduler = self._process.scheduler
        await self._process.begin()
        await self.settle()

    async def _end(self) -> None:
        self.seen.scheduler = None
        await self._process.end()

    async def close(self) -> None:
        """Stop everything."""
        self.seen.stop()
        self._lifecycle.stop()
        await self._end()

    async def settle(self) -> None:
        """Let everything happen that needs no time."""
        await self.advance(0)

    async def advance(self, seconds: float) -> None:
        """Let time pass; `at_rest` is called at each moment at which something happened."""
        await self.clock.advance(seconds, at_rest=self.at_rest)
        self.at_rest()
        self._process.require()

    # --- steps -----------------------------------------------------------------------------------

    async def restart(self, _: Restart) -> None:
        """Replace the scheduler process: its memory is lost, the API's objects stay."""
        await self._end()
        self._process.build()
        await self._begin()

    def create_podgroup(self, step: CreatePodGroup) -> None:
        """Create the object, or check that the API server rejects it."""
        dialect = self._row(step.dialect)
        try:
            self.cluster.add(group_manifest(step, dialect))
        except APIError as error:
            wanted = step.expect_error
            if not wanted or (isinstance(wanted, str) and wanted not in str(error)):
                raise
            return
        if step.expect_error:
            raise StepError(f"podgroup {step.ns}/{step.name} was created; the API server should have rejected it")
        self._groups[step.ns, step.name] = dialect

    def update_podgroup(self, step: UpdatePodGroup) -> None:
        """Change the object."""
        dialect = self._dialect_of_group(step.ns, step.name)
        kind = dialect.kinds[0]
        self._patch(kind.api_version, kind.kind, step.ns, step.name, group_patch(step, dialect))

    def delete_podgroup(self, step: DeletePodGroup) -> None:
        """Delete the object."""
        kind = self._dialect_of_group(step.ns, step.name).kinds[0]
        self.cluster.remove(kind.api_version, kind.kind, step.name, namespace=step.ns)

    def create_pods(self, step: CreatePods) -> None:
        """Create pods `prefix-start` and so on."""
        for number in range(step.start, step.start + step.count):
            self._create_pod(step, f"{step.prefix}-{number}")

    def _create_pod(self, step: CreatePods, name: str) -> None:
        container: dict[str, Any] = {"name": "main", "image": "scenario"}
        requests = amounts(cpu=step.cpu, gpu=step.gpu, mem=step.mem)
        container["resources"] = {"requests": requests}
        if step.gpu:
            container["resources"]["limits"] = {"nvidia.com/gpu": requests["nvidia.com/gpu"]}
        spec: dict[str, Any] = {
            "schedulerName": SCHEDULER_NAME,
            "priority": step.priority,
            "containers": [container],
        }
        if step.node_selector:
            spec["nodeSelector"] = step.node_selector
        if step.gated:
            spec["schedulingGates"] = [{"name": _GATE}]
        if step.node:
            spec["nodeName"] = step.node
        manifest: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": step.ns,
                "labels": texts(step.labels),
                "annotations": texts(step.annotations),
            },
            "spec": spec,
        }
        if step.phase:
            manifest["status"] = {"phase": step.phase}
        if step.group:
            dialect = self._pods[step.ns, name] = self._row(step.dialect)
            dialect.keys[0].write(manifest, step.group)
        self.seen.prefixes[f"{step.ns}/{name}"] = set_name(step.ns, step.prefix)
        self.cluster.add(manifest)

    def delete_pods(self, step: DeletePods) -> None:
        """Delete pods at once."""
        for namespace, name in self.pods_to_delete(step):
            self.cluster.remove("v1", "Pod", name, namespace=namespace)

    def pods_to_delete(self, step: DeletePods) -> Sequence[tuple[str, str]]:
        """Return namespace and name of the pods that a step deletes."""
        if step.pods:
            return [_key(name) for name in step.pods]
        found = [seen for seen in self.seen.live(step.of) if not step.state or self.seen.state(seen) == step.state]
        found.sort(key=lambda seen: _natural(seen.pod.name))
        if step.count is not None:
            if len(found) < step.count:
                raise StepError(f"set {step.of} has {len(found)} {step.state} pods to delete, not {step.count}")
            found = found[: step.count]
        return [(seen.pod.namespace, seen.pod.name) for seen in found]

    def update_pods(self, step: UpdatePods) -> None:
        """Change pods."""
        for key in step.pods:
            namespace, name = _key(key)
            patch: dict[str, Any] = {}
            if step.group is not None:
                dialect = self._pods.get((namespace, name)) or self._row(None)
                dialect.keys[0].write(patch, step.group)
            if step.annotations:
                patch.setdefault("metadata", {}).setdefault("annotations", {}).update(texts(step.annotations))
            if step.ungate:
                patch.setdefault("spec", {})["schedulingGates"] = None
            self._patch("v1", "Pod", namespace, name, patch)

    def complete_pods(self, step: CompletePods) -> None:
        """Set the phase of pods to Succeeded."""
        for key in step.pods:
            namespace, name = _key(key)
            self._patch("v1", "Pod", namespace, name, {"status": {"phase": "Succeeded"}}, status=True)

    def add_nodes(self, step: Iterable[NodeSpec]) -> None:
        """Create nodes."""
        for spec in step:
            names = [spec.name] if spec.count == 1 else [f"{spec.name}-{number}" for number in range(spec.count)]
            self.cluster.add(*(_node(spec, name) for name in names))

    def update_node(self, step: UpdateNode) -> None:
        """Change a node."""
        if step.unschedulable is not None:
            self._patch("v1", "Node", "", step.name, {"spec": {"unschedulable": step.unschedulable or None}})
        if step.cpu is not None:
            cpu = f"{round(step.cpu * 1000)}m"
            status = {"capacity": {"cpu": cpu}, "allocatable": {"cpu": cpu}}
            self._patch("v1", "Node", "", step.name, {"status": status}, status=True)

    def delete_node(self, step: DeleteNode) -> None:
        """Delete a node."""
        self.cluster.remove("v1", "Node", step.name)

    def fail_bind(self, step: FailBind) -> None:
        """Let the next bind calls of some pods fail."""
        for key in step.pods:
            namespace, name = _key(key)
            path = f"/namespaces/{re.escape(namespace)}/pods/{re.escape(name)}/binding$"
            self.cluster.faults.add(Fault(method="POST", path=path, status=_BIND_REFUSED, times=step.times))

    # --- small things ----------------------------------------------------------------------------

    def phases(self) -> dict[str, str]:
        """Return the phases of all groups that have an object, by namespace and name."""
        found: dict[str, str] = {}
        for (namespace, name), dialect in sorted(self._groups.items()):
            kind = dialect.kinds[0]
            try:
                item = self.cluster.get(kind.api_version, kind.kind, name, namespace=namespace)
                status = decode(kind.type, msgspec.json.encode(item)).status  # type: ignore[attr-defined]  # see Dialect
                found[f"{namespace}/{name}"] = dialect.status.phase(status)
            except APIError:
                continue  # it was deleted
            except (AttributeError, DecodeError):
                found[f"{namespace}/{name}"] = ""
        return found

    def _row(self, dialect: str | None) -> Dialect:
        return self._table.named(dialect or self._config.dialect)

    def _dialect_of_group(self, namespace: str, name: str) -> Dialect:
        try:
            return self._groups[namespace, name]
        except KeyError:
            raise StepError(f"podgroup {namespace}/{name} was never created") from None

    def _patch(
        self, api_version: str, kind: str, namespace: str, name: str, patch: dict[str, Any], *, status: bool = False
    ) -> None:
        apply_patch(
            self.cluster.registry,
            self.cluster.resource(api_version, kind),
            namespace,
            name,
            msgspec.json.encode(patch),
            PatchOptions("application/merge-patch+json", FieldCheck(), "status" if status else ""),
        )


def _node(spec: NodeSpec, name: str) -> dict[str, Any]:
    room = {"cpu": "0", **amounts(cpu=spec.cpu, gpu=spec.gpu, mem=spec.mem), "pods": str(spec.pods)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **spec.labels}},
        "spec": {"unschedulable": True} if spec.unschedulable else {},
        "status": {"capacity": room, "allocatable": room},
    }


def _key(name: str) -> tuple[str, str]:
    """Return namespace and name of a pod as scenario files name it."""
    namespace, _, rest = name.rpartition("/")
    return namespace or "default", rest


def _natural(name: str) -> tuple[str, int, str]:
    """Return a sort key by which `w-2` comes before `w-10`."""
    stem, _, number = name.rpartition("-")
    return (stem, int(number), name) if number.isdigit() else (name, -1, name)
