"""Which changes of pods and nodes may help a pod that InterPodAffinity rejected.

Terms are taken as the pod states them: namespaces are not looked up, so a namespace selector counts only where it
selects namespaces without labels. Source: kube-scheduler 1.36, `isSchedulableAfterPodChange`, `...NodeChange`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.api import Node, Pod
from pyscheduler.framework import QueueingHint
from pyscheduler.framework.affinity_terms import required_terms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler.framework import AffinityTerm

__all__ = ["after_node_change", "after_pod_change"]

_NO_LABELS: Final[Mapping[str, str]] = {}


def after_pod_change(pod: Pod, old: object | None, new: object | None) -> QueueingHint:
    """Queue when a pod that is wanted came, one that is shunned or shuns went, or the pod itself was relabelled."""
    before = old if isinstance(old, Pod) else None
    after = new if isinstance(new, Pod) else None
    if before is not None and after is not None and pod.uid == after.uid:
        return QueueingHint.QUEUE
    if any(each is not None and not _has_place(each) for each in (before, after)):
        return QueueingHint.SKIP
    affinity, anti_affinity = _affinity(pod), _anti_affinity(pod)
    if before is None:
        assert after is not None
        helps = _all_match(affinity, after)
    elif after is None:
        helps = _all_match(anti_affinity, before) or _all_match(_anti_affinity(before), pod)
    else:
        came = not _all_match(affinity, before) and _all_match(affinity, after)
        helps = came or (_all_match(anti_affinity, before) and not _all_match(anti_affinity, after))
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def after_node_change(pod: Pod, old: object | None, new: object | None) -> QueueingHint:
    """Queue when a node joined a domain of the pod's affinity, or left one of its anti-affinity."""
    assert isinstance(new, Node)
    affinity, anti_affinity = _affinity(pod), _anti_affinity(pod)
    if not isinstance(old, Node):
        # A new node without the key of an anti-affinity takes the pod, too.
        helps = any(term.topology_key in new.labels for term in affinity) or bool(anti_affinity)
        return QueueingHint.QUEUE if helps else QueueingHint.SKIP
    joined = any(
        new.labels.get(term.topology_key, None) not in {None, old.labels.get(term.topology_key)} for term in affinity
    )
    left = any(
        old.labels.get(term.topology_key) not in {None, new.labels.get(term.topology_key)} for term in anti_affinity
    )
    return QueueingHint.QUEUE if joined or left else QueueingHint.SKIP


def _affinity(pod: Pod) -> Sequence[AffinityTerm]:
    affinity = pod.spec.affinity
    return required_terms(pod, affinity.pod_affinity) if affinity is not None else ()


def _anti_affinity(pod: Pod) -> Sequence[AffinityTerm]:
    affinity = pod.spec.affinity
    return required_terms(pod, affinity.pod_anti_affinity) if affinity is not None else ()


def _all_match(terms: Sequence[AffinityTerm], pod: Pod) -> bool:
    """Tell whether there are terms and all speak of `pod`; for anti-affinity, too, as kube-scheduler asks."""
    return bool(terms) and all(term.matches(pod, _NO_LABELS) for term in terms)


def _has_place(pod: Pod) -> bool:
    """Tell whether the pod has a node, or was promised one."""
    return bool(pod.node_name or pod.status.nominated_node_name)
