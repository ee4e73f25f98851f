"""The kinds of `resource.k8s.io/v1`, as rows of the table of resources.

Source: Kubernetes 1.36, `pkg/registry/resource`, with its default feature gates.
"""

from __future__ import annotations

from typing import Final

from pyscheduler.cluster.embedded.resources.table import CHANGE_VERBS, Resource, Subresource

__all__ = ["CLAIMS", "CLAIM_TEMPLATES", "DEVICE_GROUP", "DEVICE_RESOURCES", "FINALIZER"]

DEVICE_GROUP: Final = "resource.k8s.io"
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"""Keeps a claim from going while it is allocated."""

_VERSION: Final = "v1"

CLAIMS: Final = Resource(
    DEVICE_GROUP,
    _VERSION,
    "resourceclaims",
    "ResourceClaim",
    subresources=(Subresource("status", "ResourceClaim", CHANGE_VERBS),),
    has_generation=False,
    returns_deleted=True,
)
CLAIM_TEMPLATES: Final = Resource(
    DEVICE_GROUP,
    _VERSION,
    "resourceclaimtemplates",
    "ResourceClaimTemplate",
    has_generation=False,
    returns_deleted=True,
)
DEVICE_RESOURCES: Final = (
    Resource(DEVICE_GROUP, _VERSION, "deviceclasses", "DeviceClass", namespaced=False, returns_deleted=True),
    CLAIMS,
    CLAIM_TEMPLATES,
    Resource(
        DEVICE_GROUP,
        _VERSION,
        "resourceslices",
        "ResourceSlice",
        namespaced=False,
        returns_deleted=True,
        field_paths={"spec.nodeName": ("spec", "nodeName"), "spec.driver": ("spec", "driver")},
    ),
)
"""All of them, in the order discovery lists them."""
