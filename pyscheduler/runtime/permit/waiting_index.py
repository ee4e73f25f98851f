"""An index of the pods that wait at Permit, by a key that a plugin chooses, for example their group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.framework.errors import PLUGIN_FAILURES

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework.plugin_failures import PluginFailures
    from pyscheduler.runtime.permit.waiting_pods import HeldPod

__all__ = ["WaitingPodIndex"]


class WaitingPodIndex:
    """The `WaitingIndex` that plugins see. A pod whose key cannot be told is in no index."""

    __slots__ = ("_failures", "_key", "_key_of", "_pods")

    def __init__(self, key: Callable[[Pod], Hashable | None], failures: PluginFailures) -> None:
        self._key = key
        self._failures = failures
        #: Under which key each pod is filed, by uid: what the key function says may have changed since.
        self._key_of: dict[str, Hashable] = {}
        self._pods: dict[Hashable, dict[str, HeldPod]] = {}

    def add(self, held: HeldPod) -> None:
        """File a pod that begins to wait."""
        try:
            key = self._key(held.pod)
            if key is None:
                return
            self._pods.setdefault(key, {})[held.pod.uid] = held
        except PLUGIN_FAILURES as error:  # the pod waits all the same
            self._failures.report(error, plugin="", point="WaitingIndex", about=f"pod={held.pod.key}", call=self._key)
            return
        self._key_of[held.pod.uid] = key

    def remove(self, held: HeldPod) -> None:
        """Take out a pod that waits no more."""
        key = self._key_of.pop(held.pod.uid, None)
        if key is None:
            return
        pods = self._pods[key]
        del pods[held.pod.uid]
        if not pods:
            del self._pods[key]

    def of(self, key: Hashable) -> Sequence[HeldPod]:
        """Return the pods under `key`, in the order in which they began to wait."""
        return tuple(self._pods.get(key, {}).values())

    def count(self, key: Hashable) -> int:
        """Return how many pods wait under `key`."""
        return len(self._pods.get(key, ()))

    def groups(self) -> Sequence[Hashable]:
        """Return the keys under which some pod waits."""
        return tuple(self._pods)

    def check_invariants(self, waiting: Mapping[str, HeldPod]) -> None:
        """Raise AssertionError where the index holds other pods than those that wait."""
        filed = {uid: key for key, pods in self._pods.items() for uid in pods}
        assert filed == self._key_of, "index and keys disagree"
        assert all(self._pods.values()), "a key is kept for nobody"
        for key, pods in self._pods.items():
            for uid, held in pods.items():
                assert waiting.get(uid) is held, f"{held} is indexed under {key} and waits no more"
