"""Helpers for a plugin's method `sign_pod`, which returns the parts of a pod that the plugin's answers depend on.

Pods with equal results of `sign_pod` can share a list of scored nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from pyscheduler.framework.interfaces import SignFragment

if TYPE_CHECKING:
    from pyscheduler.api import NodeSelectorTerm, Pod

__all__ = [
    "FEATURES",
    "HOST_PORTS",
    "IMAGE_NAMES",
    "LABELS",
    "NODE_AFFINITY",
    "NODE_NAME",
    "NODE_SELECTOR",
    "RESOURCES",
    "TOLERATIONS",
    "VOLUMES",
    "sign_labels",
    "sign_node_affinity",
    "sign_node_selector",
    "sign_tolerations",
    "sign_volumes",
]

FEATURES: Final = "v1.Pod.Spec.RequiredFeatures()"
HOST_PORTS: Final = "v1.Pod.Spec.HostPorts()"
IMAGE_NAMES: Final = "v1.Pod.Spec.CanonicalImageNames()"
LABELS: Final = "v1.Pod.Labels"
NODE_AFFINITY: Final = "v1.Pod.Spec.Affinity.NodeAffinity"
NODE_NAME: Final = "v1.Pod.Spec.NodeName"
NODE_SELECTOR: Final = "v1.Pod.Spec.Affinity.NodeSelector"
RESOURCES: Final = "v1.Pod.Spec.ContainerRequestsAndOverheads()"
TOLERATIONS: Final = "v1.Pod.Spec.Tolerations"
VOLUMES: Final = "v1.Pod.Spec.Volumes.NonSyntheticSources()"

#: A volume of a kind that no plugin reads.
_NO_SOURCE: Final = b"{}"


def sign_tolerations(pod: Pod) -> SignFragment:
    """Return the fragment of what taints the pod tolerates."""
    return SignFragment(
        TOLERATIONS,
        tuple(sorted(pod.spec.tolerations, key=lambda t: (t.key, t.value, t.operator, t.effect))),
    )


def sign_volumes(pod: Pod) -> SignFragment:
    """Return the fragment of the pod's volumes, as far as some plugin looks into them; their names do not count."""
    sources = (msgspec.json.encode(msgspec.structs.replace(volume, name="")) for volume in pod.spec.volumes)
    return SignFragment(VOLUMES, tuple(sorted(source for source in sources if source != _NO_SOURCE)))


def sign_labels(pod: Pod) -> SignFragment:
    """Return the fragment of what selectors see of the pod."""
    return SignFragment(LABELS, tuple(sorted(pod.labels.items())))


def sign_node_selector(pod: Pod) -> SignFragment:
    """Return the fragment of the node labels that the pod demands."""
    return SignFragment(NODE_SELECTOR, tuple(sorted(pod.spec.node_selector.items())))


def sign_node_affinity(pod: Pod) -> SignFragment:
    """Return the fragment of the nodes that the pod demands and prefers by affinity."""
    affinity = pod.spec.affinity
    node_affinity = affinity.node_affinity if affinity is not None else None
    if node_affinity is None:
        return SignFragment(NODE_AFFINITY, None)
    required = node_affinity.required_during_scheduling_ignored_during_execution
    preferred = node_affinity.preferred_during_scheduling_ignored_during_execution
    return SignFragment(
        NODE_AFFINITY,
        (
            None if required is None else tuple(sorted(_term(term) for term in required.node_selector_terms)),
            tuple(sorted((wish.weight, _term(wish.preference)) for wish in preferred)),
        ),
    )


def _term(term: NodeSelectorTerm) -> tuple[tuple[tuple[str, str, tuple[str, ...]], ...], ...]:
    return tuple(
        tuple(sorted((each.key, each.operator, tuple(sorted(each.values))) for each in requirements))
        for requirements in (term.match_expressions, term.match_fields)
    )
