"""What is kept between cycles for pods that ask the same: who skips them, who refuses them where, what nodes score.

Kept is what plugins have promised to answer again (`framework.reuse`), and nothing else: whatever depends on other pods
around, on objects of other kinds or on the time is asked anew for every pod, and joined with what is kept. So nothing
has to be thrown away when a service, a namespace or a volume changes; only nodes and their pods can make something old,
and of these the snapshot's columns note which rows changed.

A kind of pod is remembered from its second pod on, since most kinds of some clusters have one only. Kinds that did not
come for longest are forgotten when the memory gets too large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.interfaces import PreFilterResult
from pyscheduler.framework.reuse import Reuse
from pyscheduler.framework.status import Code, Status
from pyscheduler.runtime.equivalence_cache.equivalence_key import equivalence_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.runtime.equivalence_cache.filter_cache import FilterCache
    from pyscheduler.runtime.equivalence_cache.nominated_filter_cache import NominatedFilterCache
    from pyscheduler.runtime.equivalence_cache.score_cache import ScoreCache
    from pyscheduler.runtime.plugin_calls import PluginCalls, PluginMethod

__all__ = ["CachedResult", "EquivalenceClass", "EquivalenceClasses", "PluginTrace"]

#: Bytes of arrays that are kept in all: 500 kinds of pods at 15,000 nodes.
_MAX_BYTES: Final = 64 * 2**20
#: Kinds of pods that are known at all, by as much as their key, and bytes of these keys. A key is about as long as the
#: pod's spec. Beside its arrays a kind takes 14 kB for a plain pod, and for a long spec ten times its key.
_MAX_KINDS: Final = 2048
_MAX_KEY_BYTES: Final = 2 * 2**20


@attrs.frozen
class CachedResult:
    """What a plugin did with a kind of pod before nodes were looked at: it bowed out, or wrote `data`."""

    skips: bool
    data: Mapping[str, object]

    def repeat(self, method: PluginMethod, state: CycleState, skipped: set[str]) -> None:
        """Leave behind what the plugin would."""
        if self.skips:
            skipped.add(method.plugin)
        else:
            method.evaluations += 1
        if self.data:
            state.write_all(self.data)


class PluginTrace:
    """Asks the plugins of a phase about a pod, and takes down what they do."""

    __slots__ = ("_calls", "_state", "_steps")

    def __init__(self, calls: PluginCalls, state: CycleState) -> None:
        self._calls = calls
        self._state = state
        #: Per plugin, in order; None for those that are asked anew. None where there is something that cannot be kept.
        self._steps: list[CachedResult | None] | None = []

    def run(self, method: PluginMethod, pod: Pod, *args: object, sampled: bool = False) -> object:
        """Ask a plugin, as `PluginCalls.run` does."""
        before = self._state.written()
        answer = self._calls.run(method, pod, *args, sampled=sampled)
        if self._steps is not None:
            self._take_down(self._steps, method, answer, before)
        return answer

    def learned(
        self, memory: EquivalenceClass, methods: Sequence[PluginMethod]
    ) -> Sequence[CachedResult | None] | None:
        """Return what all of `methods` do, None where a rejection cut the lesson short; tell `memory` of failure."""
        if self._steps is None:
            memory.lose()
            return None
        return self._steps if len(self._steps) == len(methods) else None

    def _take_down(
        self, steps: list[CachedResult | None], method: PluginMethod, answer: object, before: Mapping[str, object]
    ) -> None:
        if method.reuse is Reuse.NEVER:
            steps.append(None)
            return
        skips = isinstance(answer, Status) and answer.code == Code.SKIP
        passes = answer is None or (isinstance(answer, Status) and answer.code == Code.SUCCESS)
        if not passes and isinstance(answer, PreFilterResult):
            passes = answer.node_names is None
        if not skips and not passes:
            self._steps = None
            return
        data = {key: value for key, value in self._state.written().items() if before.get(key) is not value}
        steps.append(CachedResult(skips, data))


@attrs.define(eq=False)
class EquivalenceClass:
    """What is kept for one kind of pod; parts are None until they were learned."""

    pre_filter: Sequence[CachedResult | None] | None = None
    pre_score: Sequence[CachedResult | None] | None = None
    filters: FilterCache | None = None
    #: What nodes say with their nominated pods on them.
    crowds: NominatedFilterCache | None = None
    scores: ScoreCache | None = None
    #: Whether something about the kind cannot be kept, so that nothing is.
    is_lost: bool = False
    #: Bytes of its arrays when they were last counted.
    size: int = 0

    def lose(self) -> None:
        """Keep nothing, now or later."""
        self.pre_filter = self.pre_score = None
        self.filters = self.scores = self.crowds = None
        self.is_lost = True


class EquivalenceClasses:
    """The memories of one profile, by kind of pod; those that came last stand at the end."""

    __slots__ = ("_key_bytes", "_kinds", "_max_bytes", "_max_kinds", "_size")

    def __init__(self, *, max_bytes: int = _MAX_BYTES, max_kinds: int = _MAX_KINDS) -> None:
        self._max_bytes = max_bytes
        self._max_kinds = max_kinds
        #: By key; None for a kind of which one pod was seen.
        self._kinds: dict[bytes, EquivalenceClass | None] = {}
        self._size = 0
        self._key_bytes = 0

    def __len__(self) -> int:
        """Return how many kinds of pods are remembered."""
        return sum(memory is not None for memory in self._kinds.values())

    @property
    def size(self) -> int:
        """Return how many bytes the arrays take."""
        return self._size

    def of(self, pod: Pod) -> EquivalenceClass | None:
        """Return the memory for pods like `pod`, which may be blank; None where there is to be none (yet)."""
        key = equivalence_key(pod)
        if key is None:
            return None
        kinds = self._kinds
        if key not in kinds:
            kinds[key] = None
            self._key_bytes += len(key)
            while len(kinds) > self._max_kinds or self._key_bytes > _MAX_KEY_BYTES:
                self._forget(next(iter(kinds)))
            return None
        memory = kinds.pop(key)
        if memory is None:
            memory = EquivalenceClass()
        kinds[key] = memory
        return None if memory.is_lost else memory

    def settle(self, memory: EquivalenceClass) -> None:
        """Count the bytes of a memory that has learned or lost something; forget others where that is too much."""
        parts = () if memory.is_lost else (memory.filters, memory.scores, memory.crowds)
        size = sum(part.size for part in parts if part is not None)
        self._size += size - memory.size
        memory.size = size
        while self._size > self._max_bytes and self._kinds:
            oldest = next(iter(self._kinds))
            if self._kinds[oldest] is memory:
                break
            self._forget(oldest)

    def _forget(self, key: bytes) -> None:
        memory = self._kinds.pop(key)
        self._key_bytes -= len(key)
        if memory is not None:
            self._size -= memory.size
            # A cycle that still holds it learns in vain.
            memory.lose()
            memory.size = 0
