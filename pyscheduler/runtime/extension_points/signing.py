"""A pod's signature: two pods of a profile have the same feasible nodes and scores if their signatures are equal.

Source: kube-scheduler 1.36, `computeBatchablePlugins` and `SignPod`.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from pyscheduler.framework.interfaces import SignFragment
from pyscheduler.framework.status import Status

if TYPE_CHECKING:
    from pyscheduler.api import Pod
    from pyscheduler.runtime.extension_points.plugin_calls import PluginCalls, PluginMethod

__all__ = ["SCHEDULER_NAME", "Signature", "Signing"]

Signature: TypeAlias = "tuple[tuple[str, object], ...]"
"""The request of a pod, by fragment; hashable."""

_EXPECTED: Final = "a list or tuple of SignFragment(key, value), or a rejection for a pod without a signature"
#: The key of the fragment that every signature has.
SCHEDULER_NAME: Final = "v1.Pod.Spec.SchedulerName"


@attrs.frozen
class Signing:
    """The Sign plugins of a profile; `methods` None where some plugin that judges nodes cannot sign."""

    calls: PluginCalls
    methods: list[PluginMethod] | None

    def sign(self, pod: Pod) -> Signature | None:
        """Return the pod's signature, hashable; None where it has none, which only costs speed."""
        if self.methods is None:
            return None
        began = self.calls.clock.now()
        signature, status = self._sign(pod, self.methods)
        self.calls.point("Sign", status, began)
        return signature

    def _sign(self, pod: Pod, methods: list[PluginMethod]) -> tuple[Signature | None, Status | None]:
        calls = self.calls
        parts: dict[str, object] = {SCHEDULER_NAME: pod.scheduler_name}
        for place, method in enumerate(methods):
            answer = calls.run(method, pod, pod, sampled=True)  # always, as upstream
            if isinstance(answer, Status):
                if place:
                    methods.insert(0, methods.pop(place))
                return None, answer
            if not isinstance(answer, (tuple, list)) or not all(isinstance(each, SignFragment) for each in answer):
                return None, calls.wrong_type(method, pod, answer, _EXPECTED)
            for fragment in answer:
                try:
                    hash(fragment.value)
                except TypeError:
                    error = TypeError(
                        f'Sign returned a SignFragment whose value of "{fragment.key}" is a '
                        f"{type(fragment.value).__name__}; write a value that can be hashed, such as a tuple of texts"
                    )
                    return None, calls.failed(method, pod, error)
                parts[fragment.key] = fragment.value
        return tuple(sorted(parts.items(), key=itemgetter(0))), None
