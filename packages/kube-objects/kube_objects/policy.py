"""The types PriorityClass and PodDisruptionBudget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from kube_objects.meta import KubeObject, LabelSelector, Wire


class PriorityClass(KubeObject):
    """A named priority."""

    api_version: ClassVar[str] = "scheduling.k8s.io/v1"
    kind: ClassVar[str] = "PriorityClass"

    value: int = 0
    global_default: bool = False
    description: str = ""
    preemption_policy: str = ""


class PodDisruptionBudgetSpec(Wire):
    """Which pods are protected; ``None`` as `selector` protects none, an empty one all of the namespace."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Wire):
    """The number of pods that may go now; `disrupted_pods` maps those already on their way to a time."""

    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    disrupted_pods: Mapping[str, str | None] = {}


class PodDisruptionBudget(KubeObject):
    """A limit on how many pods of a set may be evicted at a time."""

    api_version: ClassVar[str] = "policy/v1"
    kind: ClassVar[str] = "PodDisruptionBudget"

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
