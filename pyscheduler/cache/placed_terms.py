"""Count, for each node and each affinity or anti-affinity term, the node's pods that have this term.

Equal terms are counted together, so an incoming pod is compared once with each distinct term.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from pyscheduler.cache.amounts import grown
from pyscheduler.cache.label_filing import SelectingThings
from pyscheduler.framework.affinity_terms import PlacedTerm, TermKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.framework.affinity_terms import AffinityTerm
    from pyscheduler.framework.node_info import NodeInfo
    from pyscheduler.framework.pod_info import PodInfo

__all__ = ["PlacedTerms"]

#: Kinds of pods whose answers are kept; beyond that the one not asked for longest goes.
_MAX_ANSWERS: Final = 4096
#: Nothing is kept for pods with more labels: those who write them could fill the memory.
_MAX_LABELS: Final = 64
#: Terms whose arrays are kept, likewise. At 5,000 nodes each takes 40 kB.
_MAX_ARRAYS: Final = 512
#: So many terms that no pod brings any more are kept, lest their pods come back.
_MAX_IDLE: Final = 64
_MIN_CAPACITY: Final = 64

_Key: TypeAlias = "tuple[TermKind, int, AffinityTerm]"
#: Namespace, labels, labels of the namespace; two orders of the same labels are two kinds, which does no harm.
_PodKind: TypeAlias = "tuple[str, tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]"


class _Term:
    """One distinct term: how often the pods of each row bring it."""

    __slots__ = ("array", "key", "rows")

    def __init__(self, key: _Key) -> None:
        self.key = key
        self.rows: dict[int, int] = {}
        self.array: NDArray[np.int64] | None = None

    def add(self, row: int, change: int) -> None:
        rows = self.rows
        count = rows.get(row, 0) + change
        if count:
            rows[row] = count
        else:
            del rows[row]
        if self.array is not None:
            self.array[row] = count

    def make_array(self, capacity: int) -> NDArray[np.int64]:
        array = self.array = np.zeros(capacity, dtype=np.int64)
        array[np.fromiter(self.rows, dtype=np.int64, count=len(self.rows))] = np.fromiter(
            self.rows.values(), dtype=np.int64, count=len(self.rows)
        )
        return array


class _Answer:
    """The terms that speak of one kind of pod, among the first `seen` there are."""

    __slots__ = ("seen", "terms")

    def __init__(self) -> None:
        self.seen = 0
        self.terms: list[_Term] = []


class PlacedTerms:
    """Affinity terms of the pods in the rows of a snapshot."""

    __slots__ = ("_answers", "_arrays", "_filed", "_held", "_idle", "_index", "_seen", "_size", "_terms", "_version")

    def __init__(self) -> None:
        #: In the order in which they were first met; a term that no pod brings any more stays for a while.
        self._terms: list[_Term] = []
        self._index: dict[_Key, _Term] = {}
        self._filed: SelectingThings[_Term] = SelectingThings()
        self._idle = 0
        #: In the order of their last use, both.
        self._answers: dict[_PodKind, _Answer] = {}
        self._arrays: dict[_Key, _Term] = {}
        #: The pods counted in, by row, and the generation of each row when that was done.
        self._held: dict[int, list[PodInfo]] = {}
        self._seen: NDArray[np.int64] = np.zeros(_MIN_CAPACITY, dtype=np.int64)
        self._size = 0
        self._version = -1

    def about(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> Sequence[PlacedTerm]:
        """Return the terms that speak of pods with these labels in that namespace, as of the last `sync`."""
        if len(self._terms) == self._idle:
            return ()
        pod_kind = (namespace, tuple(labels.items()), tuple(namespace_labels.items()))
        answer = self._answers.pop(pod_kind, None)
        news: Iterable[_Term] = ()
        if answer is None:
            answer = _Answer()
            if len(self._answers) >= _MAX_ANSWERS:
                del self._answers[next(iter(self._answers))]
            news = self._filed.candidates(labels)
        elif answer.seen < len(self._terms):
            news = self._terms[answer.seen :]
        if len(labels) <= _MAX_LABELS:
            self._answers[pod_kind] = answer
        answer.terms += [term for term in news if term.key[2].speaks_of(namespace, labels, namespace_labels)]
        answer.seen = len(self._terms)
        return [PlacedTerm(*term.key, self._counts(term)) for term in answer.terms if term.rows]

    def _counts(self, term: _Term) -> NDArray[np.int64]:
        key, array = term.key, term.array
        if array is None:
            if len(self._arrays) >= _MAX_ARRAYS:
                self._arrays.pop(next(iter(self._arrays))).array = None
            array = term.make_array(len(self._seen))
        else:
            del self._arrays[key]
        self._arrays[key] = term
        counts = array[: self._size]
        counts.flags.writeable = False
        return counts

    def sync(self, infos: Sequence[NodeInfo], generations: NDArray[np.int64], version: int) -> None:
        """Bring everything up to date with the rows; `version` is that of the columns they come from."""
        if version == self._version:
            return
        self._version = version
        size, held = len(infos), self._held
        if size > len(self._seen):
            self._grow(size)
        for row in range(size, self._size):
            if row in held:
                self._update(row, [])
        self._seen[size:] = 0
        self._size = size
        seen = self._seen[:size]
        changed = np.flatnonzero(seen != generations)
        for row in changed.tolist():
            now = infos[row].pods_with_affinity
            if now or row in held:
                self._update(row, now)
        seen[changed] = generations[changed]
        if self._idle > _MAX_IDLE + len(self._terms) // 2:
            self._forget_idle()

    def _update(self, row: int, now: Sequence[PodInfo]) -> None:
        """Count out the pods that left a row, and count in those that came."""
        before = self._held.pop(row, [])
        if now:
            self._held[row] = list(now)
        stayed = set(before).intersection(now)
        # Those that came first: a pod that was replaced by a newer version leaves its terms as they are.
        for infos, change in ((now, 1), (before, -1)):
            for info in infos:
                if info not in stayed:
                    for key in _terms_of(info):
                        self._add(row, key, change)

    def _add(self, row: int, key: _Key, change: int) -> None:
        term = self._index.get(key)
        if term is None:
            term = self._index[key] = _Term(key)
            self._terms.append(term)
            self._filed.add(key[2].selector, term)
            self._idle += 1
        was_idle = not term.rows
        term.add(row, change)
        self._idle += (not term.rows) - was_idle

    def _forget_idle(self) -> None:
        self._terms = [term for term in self._terms if term.rows]
        self._index = {term.key: term for term in self._terms}
        self._filed = SelectingThings()
        for term in self._terms:
            self._filed.add(term.key[2].selector, term)
        self._arrays = {key: term for key, term in self._arrays.items() if term.rows}
        self._answers.clear()
        self._idle = 0

    def _grow(self, size: int) -> None:
        capacity = 2 * len(self._seen)
        while capacity < size:
            capacity *= 2
        self._seen = grown(self._seen, capacity)
        for term in self._arrays.values():
            term.array = None
        self._arrays.clear()

    def check_invariants(self, infos: Sequence[NodeInfo], generations: NDArray[np.int64], version: int) -> None:
        """Raise AssertionError unless every count is what a look at each pod gives; brings them up to date first."""
        if self._version == -1:
            return  # nobody has asked
        self.sync(infos, generations, version)
        naive: dict[_Key, dict[int, int]] = {}
        for row, info in enumerate(infos):
            for pod in info.pods:
                for key in _terms_of(pod):
                    rows = naive.setdefault(key, {})
                    rows[row] = rows.get(row, 0) + 1
        assert {term.key: term.rows for term in self._terms if term.rows} == naive, "rows per term"
        assert list(self._index.values()) == self._terms, "the index of terms misses some"
        self._filed.check_invariants((term.key[2].selector, term) for term in self._terms)
        assert self._idle == sum(not term.rows for term in self._terms), "terms that no pod brings"
        assert list(self._held) == [row for row in self._held if self._held[row]], "a row without terms is held"
        kept = {key: term for key, term in self._index.items() if term.array is not None}
        assert self._arrays == kept, "terms with an array"
        assert len(kept) <= _MAX_ARRAYS, "too many arrays are kept"
        assert len(self._answers) <= _MAX_ANSWERS, "too many answers are kept"
        for term in kept.values():
            assert term.array is not None
            found = {int(row): int(term.array[row]) for row in np.flatnonzero(term.array)}
            assert found == term.rows, f"array of {term.key}"
        for (namespace, labels, namespace_labels), answer in self._answers.items():
            kind = (namespace, dict(labels), dict(namespace_labels))
            wanted = {term for term in self._terms[: answer.seen] if term.key[2].speaks_of(*kind)}
            assert set(answer.terms) == wanted, f"terms about {dict(labels)} in {namespace}"


def _terms_of(info: PodInfo) -> Iterator[_Key]:
    for term in info.required_affinity_terms:
        yield TermKind.REQUIRED_AFFINITY, 0, term
    for term in info.required_anti_affinity_terms:
        yield TermKind.REQUIRED_ANTI_AFFINITY, 0, term
    for wish in info.preferred_affinity_terms:
        yield TermKind.PREFERRED_AFFINITY, wish.weight, wish.term
    for wish in info.preferred_anti_affinity_terms:
        yield TermKind.PREFERRED_ANTI_AFFINITY, wish.weight, wish.term
