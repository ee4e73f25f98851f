"""The types Pod, Binding and EndedPod (a smaller type, for pods that succeeded or failed)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

import msgspec

from kube_objects.affinity import Affinity, TopologySpreadConstraint
from kube_objects.containers import Container, ContainerStatus, ResourceRequirements
from kube_objects.meta import KubeObject, ObjectMeta, ObjectReference, RawQuantity, Wire
from kube_objects.taints import Toleration
from kube_objects.volumes import Volume

TERMINAL_PHASES: Final = frozenset({"Succeeded", "Failed"})
"""Phases in which a pod uses nothing any more."""


class PodSchedulingGate(Wire):
    """A reason, put there by someone, not to schedule the pod yet."""

    name: str = ""


class PodResourceClaim(Wire):
    """A resource claim of the pod: an existing one, or a template to make one from."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(Wire):
    """The group that the pod is to be scheduled with."""

    pod_group_name: str | None = None


class PodSpec(Wire):
    """The desired state of a pod.

    `priority` is ``None`` until admission has resolved the priority class; `Pod.priority` reads that as 0.
    """

    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    node_selector: Mapping[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Mapping[str, RawQuantity] = {}
    resources: ResourceRequirements | None = None
    volumes: tuple[Volume, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    active_deadline_seconds: int | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    host_network: bool = False
    host_users: bool | None = None
    service_account_name: str = ""
    runtime_class_name: str | None = None
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None


class PodCondition(Wire):
    """One aspect of a pod's state; `status` is ``True``, ``False`` or ``Unknown``."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_probe_time: str | None = None
    last_transition_time: str | None = None
    observed_generation: int = 0


class PodResourceClaimStatus(Wire):
    """The claim that was made for one of the pod's resource claims; ``None`` when none was needed."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Wire):
    """Which request of a claim backs an extended resource of a container."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(Wire):
    """The claim that was made to satisfy the pod's extended resources."""

    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = ""


class PodStatus(Wire):
    """The observed state of a pod, from the scheduler, the node and controllers."""

    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    reason: str = ""
    message: str = ""
    nominated_node_name: str = ""
    start_time: str | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ResourceRequirements | None = None
    allocated_resources: Mapping[str, RawQuantity] = {}
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    resize: str = ""
    qos_class: str = ""
    observed_generation: int = 0


class Pod(KubeObject):
    """A pod."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Pod"

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def node_name(self) -> str:
        """The node the pod is bound to, empty while it is not."""
        return self.spec.node_name

    @property
    def scheduler_name(self) -> str:
        """The profile that is responsible for the pod."""
        return self.spec.scheduler_name

    @property
    def priority(self) -> int:
        """The resolved priority, 0 when there is none."""
        return self.spec.priority or 0

    @property
    def is_terminal(self) -> bool:
        """Return whether the pod has ended and uses nothing any more."""
        return self.status.phase in TERMINAL_PHASES

    @property
    def is_terminating(self) -> bool:
        """Return whether deletion has begun; the pod still uses its resources."""
        return self.metadata.deletion_timestamp is not None

    def with_node_name(self, node_name: str) -> Pod:
        """Return this pod as it is once bound to `node_name`; everything else is shared with it."""
        return msgspec.structs.replace(self, spec=msgspec.structs.replace(self.spec, node_name=node_name))


class EndedPodSpec(Wire):
    """The fields of interest about an ended pod: the node it ran on, and its scheduler."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    scheduling_group: PodSchedulingGroup | None = None


class EndedPodStatus(Wire):
    """The phase in which the pod ended."""

    phase: str = ""


class EndedPod(KubeObject):
    """A pod that has ended, as those need it who count it; there may be far more of them than of others."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Pod"

    spec: EndedPodSpec = EndedPodSpec()
    status: EndedPodStatus = EndedPodStatus()

    @property
    def is_terminal(self) -> bool:
        """Return whether the pod has ended."""
        return self.status.phase in TERMINAL_PHASES

    def as_pod(self) -> Pod:
        """Return what was read of the pod as a pod; it asks for nothing."""
        spec = self.spec
        return Pod(
            metadata=self.metadata,
            spec=PodSpec(
                node_name=spec.node_name,
                scheduler_name=spec.scheduler_name,
                priority=spec.priority,
                scheduling_group=spec.scheduling_group,
            ),
            status=PodStatus(phase=self.status.phase),
        )


class Binding(KubeObject):
    """Bind the pod that `metadata` names to the node that `target` names."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Binding"

    target: ObjectReference = ObjectReference()

    @classmethod
    def of(cls, pod: Pod, node_name: str) -> Binding:
        """Make the binding of `pod` to `node_name`; its uid makes the server refuse a namesake of the pod."""
        metadata = ObjectMeta(name=pod.name, namespace=pod.namespace, uid=pod.uid)
        return cls(metadata=metadata, target=ObjectReference(kind="Node", name=node_name))
