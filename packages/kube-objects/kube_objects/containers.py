"""The containers of a pod, and the statuses that the node reports about them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kube_objects.meta import RawQuantity, Wire


class ContainerResourceClaim(Wire):
    """Name an entry of the pod's resource claims that a container uses."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Wire):
    """The requested amounts of resources, and their limits."""

    requests: Mapping[str, RawQuantity] = {}
    limits: Mapping[str, RawQuantity] = {}
    claims: tuple[ContainerResourceClaim, ...] = ()


class ContainerPort(Wire):
    """A port; it occupies the node only when `host_port` is set. An empty `protocol` is ``TCP``."""

    name: str = ""
    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(name="hostIP", default="")
    protocol: str = ""


class ContainerRestartRule(Wire):
    """A rule for the exit of the container in a certain way."""

    action: str = ""


class Container(Wire):
    """A container, or an init container; one of the latter with `restart_policy` ``Always`` keeps running."""

    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()


class ContainerStatus(Wire):
    """The status that the node reports: resources in force (`resources`) and set aside (`allocated_resources`)."""

    name: str = ""
    allocated_resources: Mapping[str, RawQuantity] = {}
    resources: ResourceRequirements | None = None
