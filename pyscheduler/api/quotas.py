"""How much of each resource the objects of a namespace may use together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pyscheduler.api.meta import KubeObject, RawQuantity, Wire

__all__ = ["ResourceQuota", "ResourceQuotaStatus"]


class ResourceQuotaStatus(Wire):
    """The limits in force, and what is used, by names such as `cpu`, `requests.cpu` and `pods`."""

    hard: Mapping[str, RawQuantity] = {}
    used: Mapping[str, RawQuantity] = {}


class ResourceQuota(KubeObject):
    """A limit for the objects of a namespace. Its spec is not read: the status has what is in force."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "ResourceQuota"

    status: ResourceQuotaStatus = ResourceQuotaStatus()
