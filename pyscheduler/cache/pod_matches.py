"""The number of pods that a label selector matches on each node, for topology spread and pod affinity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from pyscheduler.cache.amounts import grown
from pyscheduler.cache.label_filing import LabelledThings, SelectingThings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import CompiledSelector
    from pyscheduler.framework.node_info import NodeInfo
    from pyscheduler.framework.pod_info import PodInfo

__all__ = ["PodMatches"]

#: Answers kept; beyond that the one not asked for longest goes. At 5,000 nodes each takes 40 kB.
_MAX_ANSWERS: Final = 256
#: Keys and values in the selectors of all answers kept: a pod may bring a selector of a megabyte.
_MAX_PARTS: Final = 50_000

#: Selector, namespaces (None: all), and whether terminating pods count.
_Question: TypeAlias = "tuple[CompiledSelector, frozenset[str] | None, bool]"
#: Namespace, whether terminating, labels as items; two orders of the same labels make two kinds, which does no harm.
_Key: TypeAlias = "tuple[str, bool, tuple[tuple[str, str], ...]]"


class _Answer:
    """The counts of one question, by row, and a read-only view of those in use."""

    __slots__ = ("_view", "counts")

    def __init__(self, capacity: int) -> None:
        self.counts: NDArray[np.int64] = np.zeros(capacity, dtype=np.int64)
        self._view: NDArray[np.int64] | None = None

    def view(self, num_nodes: int) -> NDArray[np.int64]:
        view = self._view
        if view is None or len(view) != num_nodes:
            view = self._view = self.counts[:num_nodes]
            view.flags.writeable = False
        return view

    def grow(self, capacity: int) -> None:
        self.counts = grown(self.counts, capacity)
        self._view = None


class _Kind:
    """Pods that no question can tell apart: how many are on each row, and the answers they count in."""

    __slots__ = ("answers", "key", "labels", "rows")

    def __init__(self, key: _Key, labels: Mapping[str, str]) -> None:
        self.key = key
        #: Those of the pod that came first, which stay as they are.
        self.labels = labels
        self.rows: dict[int, int] = {}
        self.answers: list[_Answer] = []


class _Namespace:
    """The kinds of pods of one namespace."""

    __slots__ = ("kinds", "labelled")

    def __init__(self) -> None:
        self.kinds: dict[_Key, _Kind] = {}
        self.labelled: LabelledThings[_Kind] = LabelledThings()

    def candidates(self, selector: CompiledSelector) -> Iterable[_Kind]:
        return self.labelled.candidates(selector, self.with_labels)

    def with_labels(self) -> Iterator[tuple[Mapping[str, str], _Kind]]:
        return ((kind.labels, kind) for kind in self.kinds.values())


class PodMatches:
    """Counts of matching pods over the rows of a snapshot."""

    __slots__ = ("_answers", "_held", "_namespaces", "_parts", "_questions", "_seen", "_version")

    def __init__(self) -> None:
        self._namespaces: dict[str, _Namespace] = {}
        #: In the order of their last use.
        self._answers: dict[_Question, _Answer] = {}
        self._parts = 0
        self._questions: SelectingThings[_Question] = SelectingThings()
        #: The pods counted in, by row, and the generation of the row when that was done.
        self._held: list[list[PodInfo]] = []
        self._seen: NDArray[np.int64] = np.zeros(64, dtype=np.int64)
        self._version = -1

    def count(
        self, selector: CompiledSelector, namespaces: frozenset[str] | None, num_nodes: int, *, terminating: bool
    ) -> NDArray[np.int64]:
        """Return int64[n], read-only: matching pods per row, as of the last `sync`."""
        question = (selector, namespaces, terminating)
        answer = self._answers.pop(question, None)
        if answer is None:
            answer = self._work_out(question)
        self._answers[question] = answer
        return answer.view(num_nodes)

    def sync(self, infos: Sequence[NodeInfo], generations: NDArray[np.int64], version: int) -> None:
        """Bring everything up to date with the rows; `version` is that of the columns they come from."""
        if version == self._version:
            return
        self._version = version
        size, held = len(infos), self._held
        if size > len(self._seen):
            self._grow(size)
        for row in range(size, len(held)):
            self._update(row, held[row], [])
        del held[size:]
        seen = self._seen[:size]
        changed = np.flatnonzero(seen != generations)
        held.extend([] for _ in range(size - len(held)))
        for row in changed.tolist():
            now = infos[row].pods.copy()
            self._update(row, held[row], now)
            held[row] = now
        seen[changed] = generations[changed]
        self._seen[size:] = 0

    def _update(self, row: int, before: list[PodInfo], now: list[PodInfo]) -> None:
        """Count out the pods that left a row, and count in those that came."""
        known = len(before)
        if now[:known] == before:  # as a rule pods come one at a time, at the end
            for info in now[known:]:
                self._add(row, info, 1)
            return
        stayed = set(before).intersection(now)
        # Those that came first: a pod that was replaced by a newer version leaves its kind as it is.
        for info in now:
            if info not in stayed:
                self._add(row, info, 1)
        for info in before:
            if info not in stayed:
                self._add(row, info, -1)

    def _add(self, row: int, info: PodInfo, change: int) -> None:
        metadata = info.pod.metadata
        name, labels = metadata.namespace, metadata.labels
        namespace = self._namespaces.get(name)
        if namespace is None:
            namespace = self._namespaces[name] = _Namespace()
        key = (name, metadata.deletion_timestamp is not None, tuple(labels.items()))
        kind = namespace.kinds.get(key)
        if kind is None:
            kind = namespace.kinds[key] = _Kind(key, labels)
            namespace.labelled.add(labels, kind)
            kind.answers = [
                self._answers[question] for question in self._questions.candidates(labels) if _concerns(question, kind)
            ]
        rows = kind.rows
        count = rows.get(row, 0) + change
        if count:
            rows[row] = count
        else:
            del rows[row]
            if not rows:
                del namespace.kinds[key]
                namespace.labelled.remove(labels, kind)
                if not namespace.kinds:
                    del self._namespaces[name]
        for answer in kind.answers:
            answer.counts[row] += change

    def _work_out(self, question: _Question) -> _Answer:
        """Hold a new question against all kinds; forget the one not asked for longest where there are too many."""
        self._parts += _parts_of(question)
        while self._answers and (len(self._answers) >= _MAX_ANSWERS or self._parts > _MAX_PARTS):
            self._forget(next(iter(self._answers)))
        answer = _Answer(len(self._seen))
        self._questions.add(question[0], question)
        # Added up at the end, because there are kinds of one pod, and as many as pods.
        rows: list[int] = []
        counts: list[int] = []
        for kind in self._candidates(question):
            if _concerns(question, kind):
                kind.answers.append(answer)
                rows += kind.rows
                counts += kind.rows.values()
        np.add.at(answer.counts, np.array(rows, dtype=np.int64), np.array(counts, dtype=np.int64))
        return answer

    def _forget(self, question: _Question) -> None:
        answer = self._answers.pop(question)
        self._parts -= _parts_of(question)
        self._questions.remove(question[0], question)
        for kind in self._candidates(question):
            if answer in kind.answers:
                kind.answers.remove(answer)

    def _candidates(self, question: _Question) -> Iterator[_Kind]:
        """Yield the kinds that a question may concern."""
        selector, names, _ = question
        for name in self._namespaces if names is None else names:
            namespace = self._namespaces.get(name)
            if namespace is not None:
                yield from namespace.candidates(selector)

    def _grow(self, size: int) -> None:
        capacity = 2 * len(self._seen)
        while capacity < size:
            capacity *= 2
        self._seen = grown(self._seen, capacity)
        for answer in self._answers.values():
            answer.grow(capacity)

    def check_invariants(self, infos: Sequence[NodeInfo], generations: NDArray[np.int64], version: int) -> None:
        """Raise AssertionError unless every answer is what a look at each pod gives; brings them up to date first."""
        if self._version == -1:
            return  # nobody has asked
        self.sync(infos, generations, version)
        pods = [[info.pod for info in each.pods] for each in infos]
        for question, answer in self._answers.items():
            selector, namespaces, terminating = question
            counted = [
                [pod for pod in each if selector.matches(pod.labels) and (terminating or not pod.is_terminating)]
                for each in pods
            ]
            naive = [sum(namespaces is None or pod.namespace in namespaces for pod in each) for each in counted]
            assert answer.view(len(infos)).tolist() == naive, f"pods that {selector} matches in {namespaces}"
            assert not answer.counts[len(infos) :].any(), "a free row has matching pods"
        kinds = [kind for each in self._namespaces.values() for kind in each.kinds.values()]
        assert sum(sum(kind.rows.values()) for kind in kinds) == sum(map(len, pods)), "pods by kind"
        assert all(kind.rows for kind in kinds), "a kind without pods is kept"
        assert all(tuple(kind.labels.items()) == kind.key[2] for kind in kinds), "labels of a kind were changed"
        for each in self._namespaces.values():
            assert each.kinds, "a namespace without pods is kept"
            each.labelled.check_invariants(each.with_labels())
        self._questions.check_invariants((question[0], question) for question in self._answers)
        assert {id(each) for kind in kinds for each in kind.answers} <= set(map(id, self._answers.values()))
        assert len(self._answers) <= _MAX_ANSWERS, "too many answers are kept"
        assert self._parts == sum(map(_parts_of, self._answers)), "keys and values of the selectors"


def _parts_of(question: _Question) -> int:
    selector, names, _ = question
    return sum(1 + len(requirement.values) for requirement in selector.requirements) + len(names or ())


def _concerns(question: _Question, kind: _Kind) -> bool:
    selector, namespaces, terminating = question
    namespace, is_terminating, _ = kind.key
    if namespaces is not None and namespace not in namespaces:
        return False
    return (terminating or not is_terminating) and selector.matches(kind.labels)
