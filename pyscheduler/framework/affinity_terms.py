"""Compile the pod affinity and anti-affinity terms of a pod, once per pod, so that plugins can match them quickly."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import attrs

from pyscheduler.api import compile_label_selector

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from pyscheduler.api import CompiledSelector, Pod, PodAffinity, PodAffinityTerm, PodAntiAffinity

__all__ = ["AffinityTerm", "PlacedTerm", "TermKind", "WeightedAffinityTerm", "preferred_terms", "required_terms"]


@attrs.frozen(kw_only=True, cache_hash=True)
class AffinityTerm:
    """One term: pods that `selector` picks, in `namespaces` or where `namespace_selector` fits, per `topology_key`."""

    selector: CompiledSelector
    namespaces: frozenset[str]
    namespace_selector: CompiledSelector
    topology_key: str

    def matches(self, pod: Pod, namespace_labels: Mapping[str, str]) -> bool:
        """Return whether the term selects `pod`, whose namespace carries `namespace_labels`."""
        metadata = pod.metadata
        return self.speaks_of(metadata.namespace, metadata.labels, namespace_labels)

    def speaks_of(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Return whether the term selects pods with those `labels` in `namespace`."""
        return self.selector.matches(labels) and (
            namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        )


@attrs.frozen(kw_only=True)
class WeightedAffinityTerm:
    """A preferred term; `weight` is 1 to 100."""

    term: AffinityTerm
    weight: int


class TermKind(Enum):
    """The demand or preference of a pod concerning the pods that a term selects."""

    REQUIRED_AFFINITY = 0
    REQUIRED_ANTI_AFFINITY = 1
    PREFERRED_AFFINITY = 2
    PREFERRED_ANTI_AFFINITY = 3


@attrs.frozen
class PlacedTerm:
    """A term that pods on nodes bring with them; pods of one template share it.

    `weight` is 0 for a required term. `counts`: int64[n], read-only: how often the pods on each node bring it.
    """

    kind: TermKind
    weight: int
    term: AffinityTerm
    counts: NDArray[np.int64]


def required_terms(pod: Pod, affinity: PodAffinity | PodAntiAffinity | None) -> tuple[AffinityTerm, ...]:
    """Compile the required terms of `affinity`; raise `SelectorError` where a selector does not parse."""
    if affinity is None:
        return ()
    return tuple(_compile(pod, term) for term in affinity.required_during_scheduling_ignored_during_execution)


def preferred_terms(pod: Pod, affinity: PodAffinity | PodAntiAffinity | None) -> tuple[WeightedAffinityTerm, ...]:
    """Compile the preferred terms of `affinity`; raise `SelectorError` where a selector does not parse."""
    if affinity is None:
        return ()
    return tuple(
        WeightedAffinityTerm(term=_compile(pod, weighted.pod_affinity_term), weight=weighted.weight)
        for weighted in affinity.preferred_during_scheduling_ignored_during_execution
    )


def _compile(pod: Pod, term: PodAffinityTerm) -> AffinityTerm:
    # Without namespaces and without a selector for them, a term speaks of the pod's own namespace.
    own = not term.namespaces and term.namespace_selector is None
    return AffinityTerm(
        selector=compile_label_selector(term.label_selector),
        namespaces=frozenset((pod.namespace,) if own else term.namespaces),
        namespace_selector=compile_label_selector(term.namespace_selector),
        topology_key=term.topology_key,
    )
