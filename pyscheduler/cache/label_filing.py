"""Indexes by label, to find selectors that may match an object, or objects that may match a selector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

from kube_objects.requirements import IN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyscheduler.api import CompiledSelector

__all__ = ["LabelledThings", "SelectingThings"]

T = TypeVar("T")

#: Keys under which labelled things are filed; when there are more, filing begins anew.
_MAX_KEYS: Final = 64


def _required_label(selector: CompiledSelector) -> tuple[str, str] | None:
    """Return a label that whatever `selector` matches must have; None where it requires no single one."""
    for key, operator, values in selector.requirements:
        if operator == IN and len(values) == 1:
            return key, values[0]
    return None


class SelectingThings(Generic[T]):
    """Things that select by labels; the same one is filed once."""

    __slots__ = ("_filed", "_others")

    def __init__(self) -> None:
        self._filed: dict[str, dict[str, dict[T, None]]] = {}
        self._others: dict[T, None] = {}

    def add(self, selector: CompiledSelector, thing: T) -> None:
        """File a thing that selects by `selector`."""
        label = _required_label(selector)
        if label is None:
            self._others[thing] = None
        else:
            key, value = label
            self._filed.setdefault(key, {}).setdefault(value, {})[thing] = None

    def remove(self, selector: CompiledSelector, thing: T) -> None:
        """Drop a thing that was filed with the same selector."""
        label = _required_label(selector)
        if label is None:
            del self._others[thing]
        else:
            _drop(self._filed, *label, thing)

    def candidates(self, labels: Mapping[str, str]) -> Iterator[T]:
        """Yield the things that may select `labels`."""
        yield from self._others
        for key, by_value in self._filed.items():
            if key in labels:
                yield from by_value.get(labels[key], ())

    def check_invariants(self, everything: Iterable[tuple[CompiledSelector, T]]) -> None:
        """Raise AssertionError unless what is filed is what `everything` would be filed under, and nothing else."""
        fresh: SelectingThings[T] = SelectingThings()
        for selector, thing in everything:
            fresh.add(selector, thing)
        assert self._filed == fresh._filed, "what is filed by label"
        assert self._others == fresh._others, "what requires no single label"


class LabelledThings(Generic[T]):
    """Things with labels. They are filed under a key from when a selector first requires it."""

    __slots__ = ("_filed",)

    def __init__(self) -> None:
        self._filed: dict[str, dict[str, dict[T, None]]] = {}

    def add(self, labels: Mapping[str, str], thing: T) -> None:
        """File a thing."""
        for key, by_value in self._filed.items():
            if key in labels:
                by_value.setdefault(labels[key], {})[thing] = None

    def remove(self, labels: Mapping[str, str], thing: T) -> None:
        """Drop a thing that was filed with the same labels."""
        for key in self._filed:
            if key in labels:
                _drop(self._filed, key, labels[key], thing, keep_key=True)

    def candidates(
        self, selector: CompiledSelector, everything: Callable[[], Iterable[tuple[Mapping[str, str], T]]]
    ) -> Iterable[T]:
        """Return the things that `selector` may select, out of `everything`, whatever is there with its labels."""
        label = _required_label(selector)
        if label is None:
            return [thing for _, thing in everything()]
        key, value = label
        if key not in self._filed:
            if len(self._filed) >= _MAX_KEYS:
                self._filed.clear()
            by_value: dict[str, dict[T, None]] = {}
            for labels, thing in everything():
                if key in labels:
                    by_value.setdefault(labels[key], {})[thing] = None
            self._filed[key] = by_value
        return self._filed[key].get(value, ())

    def check_invariants(self, everything: Iterable[tuple[Mapping[str, str], T]]) -> None:
        """Raise AssertionError unless what is filed is `everything` by its values, and nothing else."""
        things = list(everything)
        assert len(self._filed) <= _MAX_KEYS, "too many keys"
        for key, by_value in self._filed.items():
            naive: dict[str, dict[T, None]] = {}
            for labels, thing in things:
                if key in labels:
                    naive.setdefault(labels[key], {})[thing] = None
            assert by_value == naive, f"what is filed under {key}"


def _drop(
    filed: dict[str, dict[str, dict[T, None]]], key: str, value: str, thing: T, *, keep_key: bool = False
) -> None:
    by_value = filed[key]
    things = by_value[value]
    del things[thing]
    if not things:
        del by_value[value]
        if not by_value and not keep_key:
            del filed[key]
