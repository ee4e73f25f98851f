"""Indexes of pods by label and by group, to find the other pods of a workload fast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyscheduler.api import Pod
from pyscheduler_podgrouper.generic import POD_GROUP_ANNOTATION

if TYPE_CHECKING:
    from pyscheduler.framework import Lister

__all__ = ["PodIndex"]

#: The name of the index by group; no label has it.
_BY_GROUP: Final = ""


class PodIndex:
    """The pods of a lister. The index of a label is made when it is asked for first, and kept from then on."""

    def __init__(self, pods: Lister[Pod]) -> None:
        self._pods = pods
        self._found: dict[str, dict[tuple[str, str], dict[str, Pod]]] = {}
        pods.add_event_handler(on_add=self._add, on_update=self._update, on_delete=self._remove)

    def members(self, namespace: str, group: str) -> Sequence[Pod]:
        """Return the pods of a namespace that name a group."""
        return list(self._index(_BY_GROUP).get((namespace, group), {}).values())

    def with_labels(self, namespace: str, labels: Mapping[str, str]) -> Sequence[Pod]:
        """Return the pods of a namespace that have all these labels, at least one."""
        first = next(iter(labels))
        found = self._index(first).get((namespace, labels[first]), {}).values()
        return [pod for pod in found if labels.items() <= pod.labels.items()]

    def _index(self, key: str) -> dict[tuple[str, str], dict[str, Pod]]:
        index = self._found.get(key)
        if index is None:
            index = self._found[key] = {}
            for pod in self._pods:
                _put(index, key, pod)
        return index

    def _add(self, pod: Pod) -> None:
        for key, index in self._found.items():
            _put(index, key, pod)

    def _remove(self, pod: Pod) -> None:
        for key, index in self._found.items():
            place = (pod.namespace, _value(pod, key))
            pods = index.get(place, {})
            pods.pop(pod.uid, None)
            if not pods:
                index.pop(place, None)

    def _update(self, old: Pod, new: Pod) -> None:
        self._remove(old)
        self._add(new)


def _value(pod: Pod, key: str) -> str:
    return pod.labels.get(key, "") if key else pod.annotations.get(POD_GROUP_ANNOTATION, "")


def _put(index: dict[tuple[str, str], dict[str, Pod]], key: str, pod: Pod) -> None:
    value = _value(pod, key)
    if value:
        index.setdefault((pod.namespace, value), {})[pod.uid] = pod
