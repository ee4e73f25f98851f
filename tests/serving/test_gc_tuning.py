"""The garbage collector is held back while a scheduler runs, and only then."""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Iterator

import pytest

from pyscheduler.serving.gc_tuning import keep_for_good, rare_collections


class Cycle:
    """Holds on to itself."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture(autouse=True)
def _collections() -> Iterator[None]:
    """Collect garbage as Python does by default; the other tests have it collected more rarely."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)
    gc.freeze()  # what was exempt before


@pytest.mark.slow
def test_collections_are_rare_within_the_block_only() -> None:
    """Python looks at all objects much more rarely; afterwards all is as it was, after an error too."""
    before = gc.get_threshold()
    seen = []

    def work() -> None:
        with rare_collections():
            keep_for_good()
            seen.append((math.prod(gc.get_threshold()), gc.get_freeze_count()))
            raise OSError

    with pytest.raises(OSError):  # noqa: PT011 - the one just raised
        work()
    ((allocations, frozen),) = seen
    assert allocations >= 100 * math.prod(before)
    assert frozen > 1000
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_a_collection_looks_at_few_objects() -> None:
    """The event loop is held for some milliseconds only, however many objects were made since the start."""
    with rare_collections():
        young, middle, _ = gc.get_threshold()
    assert young * (middle + 1) <= 20_000


def test_cycles_are_still_collected() -> None:
    """Nothing leaks that comes and goes: what forms a cycle is found in the end."""
    with rare_collections():
        seen = [weakref.ref(Cycle()) for _ in range(50_000)]
        assert sum(each() is None for each in seen) > 0
