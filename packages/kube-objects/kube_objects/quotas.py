"""The type ResourceQuota, which limits the resources of a namespace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from kube_objects.meta import KubeObject, RawQuantity, Wire

__all__ = [
    "ResourceQuota",
    "ResourceQuotaSpec",
    "ResourceQuotaStatus",
    "ScopeSelector",
    "ScopedResourceSelectorRequirement",
]


class ResourceQuotaStatus(Wire):
    """The limits in force, and what is used, by names such as `cpu`, `requests.cpu` and `pods`."""

    hard: Mapping[str, RawQuantity] = {}
    used: Mapping[str, RawQuantity] = {}


class ScopedResourceSelectorRequirement(Wire):
    """One condition on pods: operator ``In``, ``NotIn``, ``Exists`` or ``DoesNotExist``."""

    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class ScopeSelector(Wire):
    """The conditions that a pod must meet to count."""

    match_expressions: tuple[ScopedResourceSelectorRequirement, ...] = ()


class ResourceQuotaSpec(Wire):
    """Which pods count. The limits are in the status."""

    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuota(KubeObject):
    """A limit for the objects of a namespace, or for those of its pods that its scopes select."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "ResourceQuota"

    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()
