"""Equivalence classes: sets of pods that get equal answers from plugins, with a cache of these answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from pyscheduler.runtime.equivalence_cache.filter_cache import FilterCache
    from pyscheduler.runtime.equivalence_cache.nominated_filter_cache import NominatedFilterCache
    from pyscheduler.runtime.equivalence_cache.score_cache import ScoreCache

__all__ = ["EquivalenceClass", "EquivalenceClasses"]

#: Bytes of all cached arrays: 500 classes at 15,000 nodes.
_MAX_BYTES: Final = 64 * 2**20
#: The number of known classes, and the bytes of their keys. A key is about as long as the pod's spec. Beside its arrays
#: a class takes 14 kB for a plain pod, and for a long spec ten times its key.
_MAX_CLASSES: Final = 2048
_MAX_KEY_BYTES: Final = 2 * 2**20


@attrs.define(eq=False)
class EquivalenceClass:
    """The cached answers for pods with one key; parts are None until a pod of the class has passed them."""

    filters: FilterCache | None = None
    #: The answers about nodes with their nominated pods on them.
    nominated: NominatedFilterCache | None = None
    scores: ScoreCache | None = None
    #: True after an answer could not be cached; then nothing is cached for the class.
    is_lost: bool = False
    #: Bytes of its arrays when they were last counted.
    size: int = 0

    def lose(self) -> None:
        """Cache nothing from now on."""
        self.filters = self.scores = self.nominated = None
        self.is_lost = True


class EquivalenceClasses:
    """The equivalence classes of one profile, the last used ones at the end."""

    __slots__ = ("_classes", "_key_bytes", "_max_bytes", "_max_classes", "_size")

    def __init__(self, *, max_bytes: int = _MAX_BYTES, max_classes: int = _MAX_CLASSES) -> None:
        self._max_bytes = max_bytes
        self._max_classes = max_classes
        #: By key; None for a class of which one pod was seen.
        self._classes: dict[bytes, EquivalenceClass | None] = {}
        self._size = 0
        self._key_bytes = 0

    def __len__(self) -> int:
        """Return how many classes have answers, or may get some."""
        return sum(each is not None for each in self._classes.values())

    @property
    def size(self) -> int:
        """Return how many bytes the arrays take."""
        return self._size

    def of(self, key: bytes) -> EquivalenceClass | None:
        """Return the class of pods with `key`, maybe blank; None for the first pod, or where nothing is cached."""
        classes = self._classes
        if key not in classes:
            classes[key] = None
            self._key_bytes += len(key)
            while len(classes) > self._max_classes or self._key_bytes > _MAX_KEY_BYTES:
                self._drop(next(iter(classes)))
            return None
        known = classes.pop(key)
        if known is None:
            known = EquivalenceClass()
        classes[key] = known
        return None if known.is_lost else known

    def settle(self, changed: EquivalenceClass) -> None:
        """Count the bytes of a class that has learned or lost something; drop others where the sum is too large."""
        parts = () if changed.is_lost else (changed.filters, changed.scores, changed.nominated)
        size = sum(part.size for part in parts if part is not None)
        self._size += size - changed.size
        changed.size = size
        while self._size > self._max_bytes and self._classes:
            oldest = next(iter(self._classes))
            if self._classes[oldest] is changed:
                break
            self._drop(oldest)

    def _drop(self, key: bytes) -> None:
        known = self._classes.pop(key)
        self._key_bytes -= len(key)
        if known is not None:
            self._size -= known.size
            # A cycle that still holds the class learns in vain.
            known.lose()
            known.size = 0
