"""One node of a cluster, and its Node object as a kubelet would register it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["GPU", "MEMORY_LABEL", "MODEL_LABEL", "PODS_PER_NODE", "Node", "Watts"]

GPU: Final = "nvidia.com/gpu"
"""The resource of whole GPUs."""
MODEL_LABEL: Final = "nvidia.com/gpu.product"
"""The label of a node with the model of its GPUs, as NVIDIA's GPU feature discovery writes it."""
MEMORY_LABEL: Final = "nvidia.com/gpu.memory"
"""The label of a node with the memory of a GPU in MiB."""
PODS_PER_NODE: Final = 110
"""The pods that a node takes: the kubelet's default."""

#: The memory of a GPU whose node does not say it, if GPUs are shared: every thousandth of it is a whole number.
_MEMORY: Final = "1000"


@attrs.frozen
class Watts:
    """The power of a node: when no GPU is busy, and in addition for each busy GPU."""

    idle: float
    gpu: float


@attrs.frozen(kw_only=True)
class Node:
    """One node."""

    name: str
    gpus: int = 8
    cpu_milli: int = 96_000
    memory_mib: int = 1_048_576
    #: The model of the GPUs; "" if it is not known.
    gpu_model: str = ""
    watts: Watts | None = None
    #: The object that the node was read from; it counts before the other fields.
    manifest: Mapping[str, Any] | None = None

    def as_object(self, *, shares_gpus: bool = False) -> dict[str, Any]:
        """Return the object of the API; with `shares_gpus` it says how much memory a GPU has."""
        made = dict(self.manifest) if self.manifest is not None else self._made()
        if shares_gpus and self.gpus:
            metadata = made["metadata"]
            made["metadata"] = {**metadata, "labels": {MEMORY_LABEL: _MEMORY, **metadata.get("labels", {})}}
        return made

    def _made(self) -> dict[str, Any]:
        room = {"cpu": f"{self.cpu_milli}m", "memory": f"{self.memory_mib}Mi", "pods": str(PODS_PER_NODE)}
        labels = {"kubernetes.io/hostname": self.name}
        if self.gpus:
            room[GPU] = str(self.gpus)
        if self.gpu_model:
            labels[MODEL_LABEL] = self.gpu_model
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": labels},
            "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]},
        }
