"""The kinds of networking and autoscaling, as rows of the table of resources: stored, and acted on by nobody here.

Source: Kubernetes 1.36, `pkg/registry/{core,discovery,networking,autoscaling}`.
"""

from __future__ import annotations

from typing import Final

from kube_testserver.resources.table import CHANGE_VERBS, Resource, Subresource

__all__ = ["AUTOSCALERS", "ENDPOINTS", "ENDPOINT_SLICES", "NETWORKING_RESOURCES"]

_NETWORKING: Final = "networking.k8s.io"

ENDPOINTS: Final = Resource(
    "",
    "v1",
    "endpoints",
    "Endpoints",
    short_names=("ep",),
    has_generation=False,
    registry_path="/registry/services/endpoints",
)
ENDPOINT_SLICES: Final = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
AUTOSCALERS: Final = Resource(
    "autoscaling",
    "v2",
    "horizontalpodautoscalers",
    "HorizontalPodAutoscaler",
    short_names=("hpa",),
    categories=("all",),
    subresources=(Subresource("status", "HorizontalPodAutoscaler", CHANGE_VERBS),),
    has_generation=False,
)
NETWORKING_RESOURCES: Final = (
    Resource(_NETWORKING, "v1", "ingressclasses", "IngressClass", namespaced=False),
    Resource(
        _NETWORKING,
        "v1",
        "ingresses",
        "Ingress",
        short_names=("ing",),
        subresources=(Subresource("status", "Ingress", CHANGE_VERBS),),
        registry_path="/registry/ingress",
    ),
    Resource(_NETWORKING, "v1", "networkpolicies", "NetworkPolicy", short_names=("netpol",)),
)
"""All of their group, in the order discovery lists them."""
