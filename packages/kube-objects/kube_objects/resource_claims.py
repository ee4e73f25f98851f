"""The types of resource claims: the devices that a claim requests, and the devices allocated to the claim.

Source: Kubernetes 1.36, `resource.k8s.io/v1`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from kube_objects.affinity import NodeSelector
from kube_objects.device_classes import DeviceSelector, OpaqueDeviceConfiguration
from kube_objects.meta import KubeObject, ObjectMeta, RawQuantity, Wire
from kube_objects.taints import Toleration


class DeviceToleration(Toleration):
    """A claim's leave to ignore some taints of devices; operator ``Equal`` when empty."""


class CapacityRequirements(Wire):
    """The requested amounts of a device's capacity, by the capacity's name."""

    requests: Mapping[str, RawQuantity] = {}


class ExactDeviceRequest(Wire):
    """A number of devices of one class; an empty `allocation_mode` is ``ExactCount``."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceSubRequest(Wire):
    """One of several ways to satisfy a request."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceRequest(Wire):
    """A demand for devices: `exactly` these, or the first of several that is available."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(Wire):
    """The attributes that devices of some requests (of all, where none is named) must have in common, or must not."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaimConfiguration(Wire):
    """The configuration for devices of some requests (of all, where none is named)."""

    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(Wire):
    """All that is asked for."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(Wire):
    """The requests of the claim; they never change."""

    devices: DeviceClaim = DeviceClaim()


class ResourceClaimConsumerReference(Wire):
    """A consumer that may use the claim: a pod, as a rule."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class DeviceRequestAllocationResult(Wire):
    """One device that a request was given.

    `request` is ``request/subrequest`` where the request has several ways. `share_id` tells users of one device apart
    where it can be allocated more than once; they have `consumed_capacity` of it.
    """

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = msgspec.field(name="shareID", default=None)
    consumed_capacity: Mapping[str, RawQuantity] = {}


class DeviceAllocationConfiguration(Wire):
    """The configuration of some allocated devices; `source` is ``FromClass`` or ``FromClaim``."""

    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(Wire):
    """The allocated devices, with their configuration."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(Wire):
    """The devices that a claim was given, and the nodes on which it can be used (``None`` for all)."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class Condition(Wire):
    """One aspect of an object's state as controllers report it; `status` is ``True``, ``False`` or ``Unknown``."""

    type: str = ""
    status: str = ""
    observed_generation: int = 0
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class AllocatedDeviceStatus(Wire):
    """The status of an allocated device, as its driver reports it."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(name="shareID", default=None)
    conditions: tuple[Condition, ...] = ()


class ResourceClaimStatus(Wire):
    """The allocation of the claim, and the consumers that may use it now."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(KubeObject):
    """A demand for devices in a namespace."""

    api_version: ClassVar[str] = "resource.k8s.io/v1"
    kind: ClassVar[str] = "ResourceClaim"

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Wire):
    """The metadata and spec of claims made from the template."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(KubeObject):
    """A pattern from which a claim is made for each pod that names it."""

    api_version: ClassVar[str] = "resource.k8s.io/v1"
    kind: ClassVar[str] = "ResourceClaimTemplate"

    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()
