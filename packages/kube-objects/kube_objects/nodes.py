"""The types Node and Namespace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from kube_objects.meta import KubeObject, RawQuantity, Wire
from kube_objects.taints import Taint


class NodeSpec(Wire):
    """The desired state of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = msgspec.field(name="providerID", default="")


class NodeCondition(Wire):
    """One aspect of a node's health; `status` is ``True``, ``False`` or ``Unknown``."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class ContainerImage(Wire):
    """An image that is present on a node, under all its names."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeStatus(Wire):
    """The resources, conditions and images that a node reports."""

    allocatable: Mapping[str, RawQuantity] = {}
    capacity: Mapping[str, RawQuantity] = {}
    conditions: tuple[NodeCondition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(KubeObject):
    """A machine that runs pods."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Node"

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NamespaceStatus(Wire):
    """The phase of a namespace: ``Active`` or ``Terminating``."""

    phase: str = ""


class Namespace(KubeObject):
    """A namespace; affinity terms select it by its labels."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Namespace"

    status: NamespaceStatus = NamespaceStatus()
