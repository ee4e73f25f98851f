"""Kubernetes objects as immutable Python types, and functions that read these objects.

This package needs only msgspec and the standard library, and does no I/O.
"""

from __future__ import annotations

from kube_objects.affinity import (
    Affinity as Affinity,
    NodeAffinity as NodeAffinity,
    NodeSelector as NodeSelector,
    NodeSelectorRequirement as NodeSelectorRequirement,
    NodeSelectorTerm as NodeSelectorTerm,
    PodAffinity as PodAffinity,
    PodAffinityTerm as PodAffinityTerm,
    PodAntiAffinity as PodAntiAffinity,
    PreferredSchedulingTerm as PreferredSchedulingTerm,
    TopologySpreadConstraint as TopologySpreadConstraint,
    WeightedPodAffinityTerm as WeightedPodAffinityTerm,
)
from kube_objects.codec import (
    ListPage as ListPage,
    Malformed as Malformed,
    WatchEvent as WatchEvent,
    decode as decode,
    decode_event as decode_event,
    decode_list as decode_list,
    encode as encode,
)
from kube_objects.config_maps import ConfigMap as ConfigMap
from kube_objects.containers import (
    Container as Container,
    ContainerPort as ContainerPort,
    ContainerResourceClaim as ContainerResourceClaim,
    ContainerRestartRule as ContainerRestartRule,
    ContainerStatus as ContainerStatus,
    ResourceRequirements as ResourceRequirements,
)
from kube_objects.coordination import (
    Event as Event,
    EventSeries as EventSeries,
    Lease as Lease,
    LeaseSpec as LeaseSpec,
)
from kube_objects.device_classes import (
    CELDeviceSelector as CELDeviceSelector,
    DeviceClass as DeviceClass,
    DeviceClassConfiguration as DeviceClassConfiguration,
    DeviceClassSpec as DeviceClassSpec,
    DeviceSelector as DeviceSelector,
    OpaqueDeviceConfiguration as OpaqueDeviceConfiguration,
)
from kube_objects.errors import (
    DecodeError as DecodeError,
    PySchedulerError as PySchedulerError,
    QuantityError as QuantityError,
    SelectorError as SelectorError,
)
from kube_objects.kinds import (
    BUILT_IN_KINDS as BUILT_IN_KINDS,
    ENDED_PODS as ENDED_PODS,
    KindTable as KindTable,
    ResourceKind as ResourceKind,
    kind_of as kind_of,
)
from kube_objects.meta import (
    APIStatus as APIStatus,
    KubeObject as KubeObject,
    LabelSelector as LabelSelector,
    LabelSelectorRequirement as LabelSelectorRequirement,
    ListMeta as ListMeta,
    ObjectMeta as ObjectMeta,
    ObjectReference as ObjectReference,
    OwnerReference as OwnerReference,
    RawQuantity as RawQuantity,
    ResourceList as ResourceList,
    StatusCause as StatusCause,
    StatusDetails as StatusDetails,
    Wire as Wire,
)
from kube_objects.names import is_extended_resource as is_extended_resource, is_scalar_resource as is_scalar_resource
from kube_objects.node_selectors import (
    CompiledNodeSelector as CompiledNodeSelector,
    NodeTerm as NodeTerm,
    PreferredTerms as PreferredTerms,
    RequiredNodeAffinity as RequiredNodeAffinity,
    compile_node_selector as compile_node_selector,
    compile_preferred_terms as compile_preferred_terms,
    required_node_affinity as required_node_affinity,
)
from kube_objects.nodes import (
    ContainerImage as ContainerImage,
    Namespace as Namespace,
    NamespaceStatus as NamespaceStatus,
    Node as Node,
    NodeCondition as NodeCondition,
    NodeSpec as NodeSpec,
    NodeStatus as NodeStatus,
)
from kube_objects.pods import (
    TERMINAL_PHASES as TERMINAL_PHASES,
    Binding as Binding,
    ContainerExtendedResourceRequest as ContainerExtendedResourceRequest,
    EndedPod as EndedPod,
    EndedPodSpec as EndedPodSpec,
    EndedPodStatus as EndedPodStatus,
    Pod as Pod,
    PodCondition as PodCondition,
    PodExtendedResourceClaimStatus as PodExtendedResourceClaimStatus,
    PodResourceClaim as PodResourceClaim,
    PodResourceClaimStatus as PodResourceClaimStatus,
    PodSchedulingGate as PodSchedulingGate,
    PodSchedulingGroup as PodSchedulingGroup,
    PodSpec as PodSpec,
    PodStatus as PodStatus,
)
from kube_objects.policy import (
    PodDisruptionBudget as PodDisruptionBudget,
    PodDisruptionBudgetSpec as PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus as PodDisruptionBudgetStatus,
    PriorityClass as PriorityClass,
)
from kube_objects.quantity import (
    MAX_INT64 as MAX_INT64,
    Quantity as Quantity,
    format_quantity as format_quantity,
    milli_of as milli_of,
    parse_quantity as parse_quantity,
    quantity_milli as quantity_milli,
    quantity_value as quantity_value,
    value_of as value_of,
)
from kube_objects.quotas import (
    ResourceQuota as ResourceQuota,
    ResourceQuotaSpec as ResourceQuotaSpec,
    ResourceQuotaStatus as ResourceQuotaStatus,
    ScopedResourceSelectorRequirement as ScopedResourceSelectorRequirement,
    ScopeSelector as ScopeSelector,
)
from kube_objects.requirements import (
    EVERYTHING as EVERYTHING,
    NOTHING as NOTHING,
    CompiledSelector as CompiledSelector,
    Requirement as Requirement,
)
from kube_objects.resource_claims import (
    AllocatedDeviceStatus as AllocatedDeviceStatus,
    AllocationResult as AllocationResult,
    CapacityRequirements as CapacityRequirements,
    Condition as Condition,
    DeviceAllocationConfiguration as DeviceAllocationConfiguration,
    DeviceAllocationResult as DeviceAllocationResult,
    DeviceClaim as DeviceClaim,
    DeviceClaimConfiguration as DeviceClaimConfiguration,
    DeviceConstraint as DeviceConstraint,
    DeviceRequest as DeviceRequest,
    DeviceRequestAllocationResult as DeviceRequestAllocationResult,
    DeviceSubRequest as DeviceSubRequest,
    DeviceToleration as DeviceToleration,
    ExactDeviceRequest as ExactDeviceRequest,
    ResourceClaim as ResourceClaim,
    ResourceClaimConsumerReference as ResourceClaimConsumerReference,
    ResourceClaimSpec as ResourceClaimSpec,
    ResourceClaimStatus as ResourceClaimStatus,
    ResourceClaimTemplate as ResourceClaimTemplate,
    ResourceClaimTemplateSpec as ResourceClaimTemplateSpec,
)
from kube_objects.resource_slices import (
    CapacityRequestPolicy as CapacityRequestPolicy,
    CapacityRequestPolicyRange as CapacityRequestPolicyRange,
    Counter as Counter,
    CounterSet as CounterSet,
    Device as Device,
    DeviceAttribute as DeviceAttribute,
    DeviceCapacity as DeviceCapacity,
    DeviceCounterConsumption as DeviceCounterConsumption,
    DeviceTaint as DeviceTaint,
    DeviceTaintRule as DeviceTaintRule,
    ResourcePool as ResourcePool,
    ResourceSlice as ResourceSlice,
    ResourceSliceSpec as ResourceSliceSpec,
)
from kube_objects.resources import (
    DEFAULT_MEMORY as DEFAULT_MEMORY,
    DEFAULT_MILLI_CPU as DEFAULT_MILLI_CPU,
    amounts_of as amounts_of,
    container_requests as container_requests,
    has_pod_level_requests as has_pod_level_requests,
    host_ports as host_ports,
    is_pod_level_resource as is_pod_level_resource,
    is_resize_infeasible as is_resize_infeasible,
    is_sidecar as is_sidecar,
    non_zero_requests as non_zero_requests,
    pod_limits as pod_limits,
    pod_requests as pod_requests,
    qos_class as qos_class,
)
from kube_objects.selector_text import (
    FieldRequirement as FieldRequirement,
    FieldSelector as FieldSelector,
    parse_field_selector as parse_field_selector,
    parse_label_selector as parse_label_selector,
)
from kube_objects.selectors import (
    compile_label_selector as compile_label_selector,
    selector_from_labels as selector_from_labels,
)
from kube_objects.storage import (
    CSIDriver as CSIDriver,
    CSIDriverSpec as CSIDriverSpec,
    CSINode as CSINode,
    CSINodeDriver as CSINodeDriver,
    CSINodeSpec as CSINodeSpec,
    CSIStorageCapacity as CSIStorageCapacity,
    PersistentVolume as PersistentVolume,
    PersistentVolumeClaim as PersistentVolumeClaim,
    PersistentVolumeClaimStatus as PersistentVolumeClaimStatus,
    PersistentVolumeSpec as PersistentVolumeSpec,
    PersistentVolumeStatus as PersistentVolumeStatus,
    StorageClass as StorageClass,
    TopologySelectorLabelRequirement as TopologySelectorLabelRequirement,
    TopologySelectorTerm as TopologySelectorTerm,
    VolumeAttachment as VolumeAttachment,
    VolumeAttachmentSource as VolumeAttachmentSource,
    VolumeAttachmentSpec as VolumeAttachmentSpec,
    VolumeAttachmentStatus as VolumeAttachmentStatus,
    VolumeNodeAffinity as VolumeNodeAffinity,
    VolumeNodeResources as VolumeNodeResources,
)
from kube_objects.taints import (
    HARD_EFFECTS as HARD_EFFECTS,
    NO_EXECUTE as NO_EXECUTE,
    NO_SCHEDULE as NO_SCHEDULE,
    PREFER_NO_SCHEDULE as PREFER_NO_SCHEDULE,
    Taint as Taint,
    Toleration as Toleration,
    find_untolerated as find_untolerated,
    tolerates as tolerates,
)
from kube_objects.times import (
    format_micro_time as format_micro_time,
    format_time as format_time,
    parse_time as parse_time,
)
from kube_objects.volumes import (
    AWSElasticBlockStoreVolumeSource as AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource as AzureDiskVolumeSource,
    AzureFileVolumeSource as AzureFileVolumeSource,
    CinderVolumeSource as CinderVolumeSource,
    CSIPersistentVolumeSource as CSIPersistentVolumeSource,
    CSIVolumeSource as CSIVolumeSource,
    EphemeralVolumeSource as EphemeralVolumeSource,
    GCEPersistentDiskVolumeSource as GCEPersistentDiskVolumeSource,
    ImageVolumeSource as ImageVolumeSource,
    ISCSIVolumeSource as ISCSIVolumeSource,
    PersistentVolumeClaimSpec as PersistentVolumeClaimSpec,
    PersistentVolumeClaimTemplate as PersistentVolumeClaimTemplate,
    PersistentVolumeClaimVolumeSource as PersistentVolumeClaimVolumeSource,
    PortworxVolumeSource as PortworxVolumeSource,
    RBDVolumeSource as RBDVolumeSource,
    Volume as Volume,
    VolumeResourceRequirements as VolumeResourceRequirements,
    VsphereVirtualDiskVolumeSource as VsphereVirtualDiskVolumeSource,
)
from kube_objects.workloads import (
    ReplicaSet as ReplicaSet,
    ReplicaSetSpec as ReplicaSetSpec,
    ReplicationController as ReplicationController,
    ReplicationControllerSpec as ReplicationControllerSpec,
    Service as Service,
    ServiceSpec as ServiceSpec,
    StatefulSet as StatefulSet,
    StatefulSetSpec as StatefulSetSpec,
)
