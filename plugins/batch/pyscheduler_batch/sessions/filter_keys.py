"""Compute keys of pods: filter plugins give the same answers about pods with equal keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from kube_objects.claims import uses_storage
from kube_objects.pods import PodStatus
from pyscheduler.framework.in_tree_args import PodTopologySpreadArgs

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable

    from pyscheduler.api import Pod
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.runtime.profile import Profile

__all__ = ["FilterKeys", "filter_key", "unplaced"]

_encode = msgspec.msgpack.Encoder().encode
_NO_STATUS: Final = PodStatus()
_MOST_FORGOTTEN: Final = 1_000
_MOST_KEYS: Final = 10_000


def unplaced(pod: Pod) -> Pod:
    """Return a pod as it would wait if it had never run."""
    if pod.node_name:
        pod = pod.with_node_name("")
    status = pod.status
    return msgspec.structs.replace(pod, status=_NO_STATUS) if status.container_statuses or status.resources else pod


def filter_key(profile: Profile, pod: Pod) -> Hashable | None:
    """Return a key that is equal for waiting pods that all filters and scores treat alike, or None.

    Storage is a matter of the very claims of a pod.
    """
    if profile.equivalence_cache is None or uses_storage(pod):
        return None
    # The equivalence key leaves out what is a matter of other pods.
    own, spec = profile.equivalence_key(pod), pod.spec
    if own is None:
        return None
    others = _encode((pod.namespace, spec.priority, spec.affinity, spec.topology_spread_constraints))
    return own, others, frozenset(pod.labels.items())


class FilterKeys:
    """The keys of the pods of one profile."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        #: By uid. An info of a pod that changed is another object.
        self._exact: dict[str, tuple[PodInfo, Hashable]] = {}
        self._plain: dict[str, tuple[PodInfo, Hashable | None]] = {}
        #: Each key once: most pods have the same.
        self._same: dict[Hashable, Hashable] = {}
        spread = profile.args.get("PodTopologySpread")
        constraints = spread.default_constraints if isinstance(spread, PodTopologySpreadArgs) else ()
        self._has_plain = profile.equivalence_cache is not None and not any(
            each.when_unsatisfiable == "DoNotSchedule" for each in constraints
        )

    def exact(self, info: PodInfo) -> Hashable:
        """Return what pods share that all filters and scores treat alike; for a pod like no other, its uid."""
        uid = info.pod.uid
        known = self._exact.get(uid)
        if known is None or known[0] is not info:
            pod = info.pod.with_node_name("") if info.pod.node_name else info.pod
            known = self._exact[uid] = (info, self._shared(filter_key(self._profile, pod) or uid))
        return known[1]

    def plain(self, info: PodInfo) -> Hashable | None:
        """Return what pods share that demand nothing of other pods and the same of nodes; None for all other pods.

        What pods have done since they run does not matter.
        """
        uid = info.pod.uid
        known = self._plain.get(uid)
        if known is None or known[0] is not info:
            key = self._profile.equivalence_key(unplaced(info.pod)) if self._has_plain and _is_plain(info) else None
            known = self._plain[uid] = (info, key and self._shared(key))
        return known[1]

    def _shared(self, key: Hashable) -> Hashable:
        if len(self._same) > _MOST_KEYS:
            self._same.clear()
        return self._same.setdefault(key, key)

    def forget_gone(self, infos: Collection[str]) -> None:
        """Forget pods that are gone. `infos`: the uids of all that are there."""
        for keys in (self._exact, self._plain):
            if len(keys) > 2 * len(infos) + _MOST_FORGOTTEN:
                for uid in [uid for uid in keys if uid not in infos]:
                    del keys[uid]


def _is_plain(info: PodInfo) -> bool:
    """Return whether no filter compares the pod with other pods, but for amounts, unless others repel it."""
    terms = (
        info.required_affinity_terms,
        info.required_anti_affinity_terms,
        info.preferred_affinity_terms,
        info.preferred_anti_affinity_terms,
    )
    return not (any(terms) or info.has_storage or info.host_ports or info.pod.spec.topology_spread_constraints)
