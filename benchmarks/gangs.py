"""Make the PodGroups and Queues of benchmarks with gangs, in the APIs of scheduler-plugins, KAI and Volcano."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from benchmarks.shapes import LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["GANGS", "GangDialect"]


@attrs.frozen(kw_only=True)
class GangDialect:
    """The objects of one system. `key`: the label or annotation in which a pod names its gang."""

    api_version: str
    key: str
    is_label: bool = False
    #: The `spec` of a gang beside its minimum.
    spec: Mapping[str, object] = attrs.Factory(dict)
    #: The version of queues; "" where gangs are in none.
    queues: str = ""
    #: The `spec` of a queue.
    queue_spec: Mapping[str, object] = attrs.Factory(dict)

    @property
    def definitions(self) -> list[str]:
        """Return the names of the files with the definitions of its kinds."""
        kinds = [("podgroups", self.api_version), *([("queues", self.queues)] if self.queues else [])]
        return [f"{kind}.{version.partition('/')[0]}.yaml" for kind, version in kinds]

    def group(self, number: int, namespace: str, size: int, *, queue: str) -> dict[str, Any]:
        """Return the object of a gang."""
        metadata = {"name": f"gang-{number}", "namespace": f"bench-{namespace}"}
        in_queue = {"queue": queue} if self.queues else {}
        spec = {"minMember": size, **self.spec, **in_queue}
        return {"apiVersion": self.api_version, "kind": "PodGroup", "metadata": metadata, "spec": spec}

    def join(self, pod: dict[str, Any], number: int) -> None:
        """Make a pod a member of a gang."""
        where = "labels" if self.is_label else "annotations"
        pod["metadata"].setdefault(where, {})[self.key] = f"gang-{number}"

    def queue(self, name: str) -> dict[str, Any]:
        """Return a queue."""
        metadata = {"name": name, "labels": {LABEL: "true"}}
        return {"apiVersion": self.queues, "kind": "Queue", "metadata": metadata, "spec": dict(self.queue_spec)}


_UNLIMITED: Final = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
_COSCHEDULING: Final = GangDialect(
    api_version="scheduling.x-k8s.io/v1alpha1",
    key="scheduling.x-k8s.io/pod-group",
    is_label=True,
    spec={"scheduleTimeoutSeconds": 300},
)
GANGS: Final[Mapping[str, GangDialect]] = {
    "coscheduling": _COSCHEDULING,
    "kai": GangDialect(
        api_version="scheduling.run.ai/v2alpha2",
        key="pod-group-name",
        queues="scheduling.run.ai/v2",
        queue_spec={"resources": dict.fromkeys(("cpu", "memory", "gpu"), _UNLIMITED)},
    ),
    "volcano": GangDialect(
        api_version="scheduling.volcano.sh/v1beta1",
        key="scheduling.k8s.io/group-name",
        queues="scheduling.volcano.sh/v1beta1",
        queue_spec={"weight": 1},
    ),
}
"""By name of the configuration."""
