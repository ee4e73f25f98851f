"""Queueing hints of InterPodAffinity: decide which changes of pods, nodes and namespaces requeue a rejected pod.

Differs from kube-scheduler 1.36, in which a rejected pod may wait for five minutes after some of these changes
(kubernetes#141953, kubernetes#141354).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pyscheduler.api import Namespace, Node, Pod
from pyscheduler.framework import QueueingHint
from pyscheduler.framework.affinity_terms import required_terms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyscheduler.framework import AffinityTerm

__all__ = ["Hints"]


@attrs.frozen
class Hints:
    """The hint functions of the plugin; `labels_of` returns the labels of a namespace."""

    labels_of: Callable[[str], Mapping[str, str]]

    def after_pod_change(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue if a wanted pod came, a pod of an anti-affinity left, or the pod itself was relabelled."""
        before = old if isinstance(old, Pod) else None
        after = new if isinstance(new, Pod) else None
        if before is not None and after is not None and pod.uid == after.uid:
            return QueueingHint.QUEUE
        if any(each and not (each.node_name or each.status.nominated_node_name) for each in (before, after)):
            return QueueingHint.SKIP
        affinity, anti_affinity = _affinity(pod), _anti_affinity(pod)
        if before is None:
            assert after is not None
            helps = self._is_wanted(affinity, after)
        elif after is None:
            helps = (
                self._is_unwanted(anti_affinity, before)
                or self._is_unwanted(_anti_affinity(before), pod)
                or self._may_be_first(affinity, pod, before)
            )
        else:
            was_wanted, is_wanted = self._is_wanted(affinity, before), self._is_wanted(affinity, after)
            left = self._is_unwanted(anti_affinity, before) and not self._is_unwanted(anti_affinity, after)
            helps = left or (not was_wanted and is_wanted)
            helps = helps or (not is_wanted and self._may_be_first(affinity, pod, before))
        return QueueingHint.QUEUE if helps else QueueingHint.SKIP

    def after_node_change(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue if a node joined a domain of the pod's affinity, or left one of its anti-affinity."""
        assert isinstance(new, Node)
        affinity, anti_affinity = _affinity(pod), _anti_affinity(pod)
        if not isinstance(old, Node):
            # A new node without the key of an anti-affinity takes the pod, too.
            helps = any(term.topology_key in new.labels for term in affinity) or bool(anti_affinity)
            return QueueingHint.QUEUE if helps else QueueingHint.SKIP
        joined = any(
            new.labels.get(term.topology_key, None) not in {None, old.labels.get(term.topology_key)}
            for term in affinity
        )
        left = any(
            old.labels.get(term.topology_key) not in {None, new.labels.get(term.topology_key)} for term in anti_affinity
        )
        return QueueingHint.QUEUE if joined or left else QueueingHint.SKIP

    def after_namespace_change(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue if new labels of a namespace make a term of the pod select it, or select it no longer.

        The pod's own namespace always counts: terms of other pods select it.
        """
        before = old.labels if isinstance(old, Namespace) else {}
        after = new.labels if isinstance(new, Namespace) else {}
        changed = new if isinstance(new, Namespace) else old
        assert isinstance(changed, Namespace)
        helps = before != after and (
            changed.name == pod.namespace
            or any(
                term.namespace_selector.matches(before) != term.namespace_selector.matches(after)
                for term in (*_affinity(pod), *_anti_affinity(pod))
            )
        )
        return QueueingHint.QUEUE if helps else QueueingHint.SKIP

    def _is_wanted(self, terms: Sequence[AffinityTerm], pod: Pod) -> bool:
        """Return whether there are terms and all match `pod`."""
        return bool(terms) and all(term.matches(pod, self.labels_of(pod.namespace)) for term in terms)

    def _is_unwanted(self, terms: Sequence[AffinityTerm], pod: Pod) -> bool:
        """Return whether a term of anti-affinity matches `pod`."""
        return any(term.matches(pod, self.labels_of(pod.namespace)) for term in terms)

    def _may_be_first(self, affinity: Sequence[AffinityTerm], pod: Pod, left: Pod) -> bool:
        """Return whether `pod` wants to be near pods like itself and `left` was one of them."""
        return self._is_wanted(affinity, left) and self._is_wanted(affinity, pod)


def _affinity(pod: Pod) -> Sequence[AffinityTerm]:
    affinity = pod.spec.affinity
    return required_terms(pod, affinity.pod_affinity) if affinity is not None else ()


def _anti_affinity(pod: Pod) -> Sequence[AffinityTerm]:
    affinity = pod.spec.affinity
    return required_terms(pod, affinity.pod_anti_affinity) if affinity is not None else ()
