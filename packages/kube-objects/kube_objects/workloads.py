"""Python types for Service, ReplicaSet and other kinds that select pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from kube_objects.meta import KubeObject, LabelSelector, Wire
from kube_objects.resource_claims import Condition


class ServiceSpec(Wire):
    """The pods behind a service; an empty selector is none."""

    selector: Mapping[str, str] = {}


class Service(KubeObject):
    """A service."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Service"

    spec: ServiceSpec = ServiceSpec()


class WorkloadStatus(Wire):
    """The part of a status that all controllers of pods have."""

    conditions: tuple[Condition, ...] = ()


class ReplicationControllerSpec(Wire):
    """The pods of a replication controller."""

    replicas: int | None = None
    selector: Mapping[str, str] = {}


class ReplicationController(KubeObject):
    """A replication controller."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "ReplicationController"

    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: WorkloadStatus = WorkloadStatus()


class ReplicaSetSpec(Wire):
    """The pods of a replica set."""

    replicas: int | None = None
    selector: LabelSelector | None = None


class ReplicaSet(KubeObject):
    """A replica set."""

    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "ReplicaSet"

    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: WorkloadStatus = WorkloadStatus()


class StatefulSetSpec(Wire):
    """The pods of a stateful set."""

    replicas: int | None = None
    selector: LabelSelector | None = None


class StatefulSet(KubeObject):
    """A stateful set."""

    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "StatefulSet"

    spec: StatefulSetSpec = StatefulSetSpec()
    status: WorkloadStatus = WorkloadStatus()
