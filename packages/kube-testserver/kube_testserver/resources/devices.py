"""The properties of the resources in `resource.k8s.io/v1`, for example whether a resource is namespaced.

Source: Kubernetes 1.36, `pkg/registry/resource`, with its default feature gates.
"""

from __future__ import annotations

import functools
from typing import Final

from kube_testserver.resources.table import CHANGE_VERBS, Resource, Subresource

__all__ = ["CLAIMS", "CLAIM_TEMPLATES", "DEVICE_GROUP", "DEVICE_RESOURCES", "FINALIZER"]

DEVICE_GROUP: Final = "resource.k8s.io"
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"""Keeps a claim from going while it is allocated."""

_device: Final = functools.partial(Resource, DEVICE_GROUP, "v1", returns_deleted=True)

CLAIMS: Final = _device(
    "resourceclaims",
    "ResourceClaim",
    subresources=(Subresource("status", "ResourceClaim", CHANGE_VERBS),),
    has_generation=False,
)
CLAIM_TEMPLATES: Final = _device("resourceclaimtemplates", "ResourceClaimTemplate", has_generation=False)
DEVICE_RESOURCES: Final = (
    _device("deviceclasses", "DeviceClass", namespaced=False),
    CLAIMS,
    CLAIM_TEMPLATES,
    _device(
        "resourceslices",
        "ResourceSlice",
        namespaced=False,
        field_paths={"spec.nodeName": ("spec", "nodeName"), "spec.driver": ("spec", "driver")},
    ),
)
"""All of them, in the order discovery lists them."""
