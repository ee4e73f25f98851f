"""Write logs of an API server by hand: one method per kind of write, on a clock that the test moves."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from pyscheduler_lab.audit import Change, History

__all__ = ["GPU", "KAI_GROUPS", "KAI_QUEUES", "VOLCANO", "Log", "situation"]

GPU: Final = "nvidia.com/gpu"
KAI_QUEUES: Final = "scheduling.run.ai/v2"
KAI_GROUPS: Final = "scheduling.run.ai/v2alpha2"
VOLCANO: Final = "scheduling.volcano.sh/v1beta1"
#: The clock of a log begins here, in seconds since 1970.
_BEGIN: Final = 1_700_000_000.0

Object = dict[str, Any]


def _copy(obj: Object) -> Object:
    """Return a deep copy of a JSON object; `copy.deepcopy` takes ten times as long."""
    copied: Object = msgspec.json.decode(msgspec.json.encode(obj))
    return copied


class Log:
    """A log that is being written. Objects are named by kind and name; all are in the namespace ``team``."""

    def __init__(self, scheduler: str = "batch") -> None:
        self.scheduler = scheduler
        self.now = _BEGIN
        self.changes: list[Change] = []
        self.objects: dict[tuple[str, str], Object] = {}
        self._created = 0

    def history(self) -> History:
        """Return the log until now."""
        return History.of(self.changes, end=self.now)

    def wait(self, seconds: float) -> None:
        """Move the clock."""
        self.now += seconds

    # --- writes -------------------------------------------------------------------------------------

    def write(self, kind: str, change: str, obj: Object) -> None:
        """Log one write."""
        obj = _copy(obj)
        revision = len(self.changes) + 1
        obj["metadata"]["resourceVersion"] = str(revision)
        self.changes.append(Change(at=self.now, revision=revision, type=change, obj=obj))
        if change == "DELETED":
            del self.objects[kind, obj["metadata"]["name"]]
        else:
            self.objects[kind, obj["metadata"]["name"]] = obj

    def create(self, api_version: str, kind: str, name: str, **fields: Any) -> None:
        """Create an object; `fields` are its spec, status and the like."""
        self._created += 1
        created = datetime.fromtimestamp(self.now + self._created * 1e-3, UTC).isoformat()
        metadata = {"name": name, "namespace": "team", "uid": f"uid-{self._created}", "creationTimestamp": created}
        metadata |= fields.pop("metadata", {})
        self.write(kind, "ADDED", {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields})

    def update(self, kind: str, name: str, **fields: Any) -> None:
        """Replace fields of an object; fields of spec, status and metadata are merged."""
        obj = _copy(self.objects[kind, name])
        for key, value in fields.items():
            obj[key] = obj.get(key, {}) | value
        self.write(kind, "MODIFIED", obj)

    def delete(self, kind: str, name: str) -> None:
        """Delete an object at once."""
        self.write(kind, "DELETED", self.objects[kind, name])

    # --- objects ------------------------------------------------------------------------------------

    def node(self, name: str, gpus: int = 8) -> None:
        """Create a node with so many GPUs, 64 CPUs and 512 GiB."""
        allocatable = {"cpu": "64", "memory": "512Gi", GPU: str(gpus), "pods": "110"}
        self.create("v1", "Node", name, spec={}, status={"allocatable": allocatable})

    def queue(self, name: str, parent: str = "", **gpu: float) -> None:
        """Create a KAI queue; `gpu` sets quota, limit and overQuotaWeight of GPUs, other resources are unlimited."""
        free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
        own = {"quota": 0, "limit": -1, "overQuotaWeight": 1} | gpu
        spec: Object = {"resources": {"cpu": free, "memory": free, "gpu": own}}
        if parent:
            spec["parentQueue"] = parent
        self.create(KAI_QUEUES, "Queue", name, spec=spec)

    def group(self, name: str, queue: str, minimum: int = 1, **spec: Any) -> None:
        """Create a KAI pod group."""
        self.create(KAI_GROUPS, "PodGroup", name, spec={"queue": queue, "minMember": minimum} | spec)

    def pod(self, name: str, group: str, gpus: float = 1, **fields: Any) -> None:
        """Create a pending pod of a group; with `node` it is bound from the beginning."""
        requests = {"cpu": "1", "memory": "1Gi", GPU: str(gpus)} if gpus else {}
        metadata: Object = {"annotations": {"pod-group-name": group} if group else {}}
        if "sub_group" in fields:
            metadata["labels"] = {"kai.scheduler/subgroup-name": fields.pop("sub_group")}
        metadata["annotations"] |= fields.pop("annotations", {})
        spec = {"schedulerName": fields.pop("scheduler", self.scheduler), "containers": [{}]}
        spec["containers"][0]["resources"] = {"requests": requests}
        status = {"phase": "Pending"}
        if "node" in fields:
            spec["nodeName"], status["phase"] = fields.pop("node"), "Running"
        self.create("v1", "Pod", name, metadata=metadata, spec=spec | fields, status=status)

    def job(self, name: str, queue: str, pods: int, minimum: int | None = None, **fields: Any) -> None:
        """Create a group and its pods ``<name>-0`` and so on."""
        gpus, node = fields.pop("gpus", 1), fields.pop("node", None)
        self.group(name, queue, pods if minimum is None else minimum, **fields)
        for index in range(pods):
            self.pod(f"{name}-{index}", name, gpus, **({"node": node} if node else {}))

    # --- what a scheduler writes --------------------------------------------------------------------

    def bind(self, *names: str, node: str = "n1") -> None:
        """Bind pods."""
        for name in names:
            self.update("Pod", name, spec={"nodeName": node}, status={"phase": "Running"})

    def nominate(self, *names: str, node: str = "n1") -> None:
        """Nominate a node for pods."""
        for name in names:
            self.update("Pod", name, status={"nominatedNodeName": node})

    def evict(self, *names: str, action: str, by: str = "", gone: bool = True, moved: bool = False) -> None:
        """Evict pods for a job of the namespace; `gone`: they are deleted at once."""
        for name in names:
            message = f"action={action}" + (f" by=team/{by}" if by else "") + (" moved=true" if moved else "")
            condition = {"type": "DisruptionTarget", "status": "True", "message": message}
            self.update("Pod", name, status={"conditions": [condition]})
            stamp = datetime.fromtimestamp(self.now, UTC).isoformat()
            self.update("Pod", name, metadata={"deletionTimestamp": stamp})
            if gone:
                self.delete("Pod", name)

    def event(self, kind: str, name: str, reason: str, note: str) -> None:
        """Record an event about an object."""
        regarding = {
            "kind": kind,
            "namespace": "team",
            "name": name,
            "uid": self.objects[kind, name]["metadata"]["uid"],
        }
        number = len(self.changes)
        self.create("events.k8s.io/v1", "Event", f"{name}.{number}", reason=reason, regarding=regarding, note=note)

    def reason(self, *names: str, message: str = "0/1 nodes are available") -> None:
        """Say why pods are pending."""
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        for name in names:
            self.update("Pod", name, status={"conditions": [condition]})


def situation(**gpu: float) -> Log:
    """Return a log with one node of 8 GPUs, and the queues ``a`` and ``b`` of 4 each; `gpu` changes ``a``."""
    log = Log()
    log.node("n1", 8)
    log.queue("a", **({"quota": 4} | gpu))
    log.queue("b", quota=4)
    return log
