"""The pods and namespaces that affinity terms match, and the topology domains of nodes.

Nodes with the same value of a term's topology key are one domain, for example all nodes of a zone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kube_objects.requirements import join_errors
from pyscheduler.api import CompiledSelector, Namespace, Pod, SelectorError
from pyscheduler.framework.affinity_terms import AffinityTerm, WeightedAffinityTerm, preferred_terms, required_terms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.framework import Lister, Nodes

__all__ = ["Namespaces", "Target", "by_domain", "common_target", "parse_errors"]

_MAX_SELECTIONS: Final = 1024


class Target(NamedTuple):
    """The pods that a term looks for: those that `selector` picks in `namespaces`; None means in all."""

    selector: CompiledSelector
    namespaces: frozenset[str] | None
    topology_key: str

    def includes(self, pod: Pod) -> bool:
        """Return whether `pod` is one of them."""
        in_namespace = self.namespaces is None or pod.namespace in self.namespaces
        return in_namespace and self.selector.matches(pod.labels)


class Namespaces:
    """The namespaces of the cluster, as terms look them up."""

    __slots__ = ("_lister", "_selections")

    def __init__(self, lister: Lister[Namespace]) -> None:
        self._lister = lister
        #: Selections made since a namespace last changed.
        self._selections: dict[CompiledSelector, frozenset[str]] = {}
        lister.add_event_handler(on_add=self._outdate, on_update=self._outdate, on_delete=self._outdate)

    def _outdate(self, *_: Namespace) -> None:
        self._selections.clear()

    def labels(self, name: str) -> Mapping[str, str]:
        """Return the labels of a namespace; none where it is not known."""
        namespace = self._lister.get(name)
        return namespace.labels if namespace is not None else {}

    def target(self, term: AffinityTerm) -> Target:
        """Return the pods that a term of a pod to be scheduled looks for.

        Differs from kube-scheduler 1.36.2, where a selector that accepts a namespace without labels (`NotIn`,
        `DoesNotExist`) selects every namespace. Later patch releases decide as here (kubernetes#141563).
        """
        selector = term.namespace_selector
        namespaces = None if selector.is_empty else term.namespaces | self._select(selector)
        return Target(term.selector, namespaces, term.topology_key)

    def _select(self, selector: CompiledSelector) -> frozenset[str]:
        selection = self._selections.get(selector)
        if selection is None:
            if len(self._selections) >= _MAX_SELECTIONS:
                self._selections.clear()
            selection = frozenset(each.name for each in self._lister if selector.matches(each.labels))
            self._selections[selector] = selection
        return selection


def common_target(targets: Sequence[Target]) -> Target:
    """Return the pods that all of `targets` include; the topology key is the first's."""
    first, *others = targets
    if not others:
        return first
    named = [each.namespaces for each in targets if each.namespaces is not None]
    selector = CompiledSelector.of(requirement for each in targets for requirement in each.selector.requirements)
    return Target(selector, frozenset.intersection(*named) if named else None, first.topology_key)


def by_domain(nodes: Nodes, topology_key: str, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return int64: the sums of `counts`, one per node of `nodes`, over each domain; fresh."""
    sums = nodes.domain_sums(topology_key, counts)
    sums[0] = 0
    return sums


def parse_errors(pod: Pod) -> str:
    """Return what is wrong with the terms of `pod`, in kube-scheduler's words; "" where all is well."""
    affinity = pod.spec.affinity
    if affinity is None:
        return ""
    errors = []
    groups: tuple[tuple[str, Callable[[], tuple[AffinityTerm | WeightedAffinityTerm, ...]]], ...] = (
        ("requiredAffinityTerms", lambda: required_terms(pod, affinity.pod_affinity)),
        ("requiredAntiAffinityTerms", lambda: required_terms(pod, affinity.pod_anti_affinity)),
        ("preferredAffinityTerms", lambda: preferred_terms(pod, affinity.pod_affinity)),
        ("preferredAntiAffinityTerms", lambda: preferred_terms(pod, affinity.pod_anti_affinity)),
    )
    for name, compile_terms in groups:
        try:
            compile_terms()
        except SelectorError as error:
            errors.append(f"{name}: {error}")
    return join_errors(errors) if errors else ""
