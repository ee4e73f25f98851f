"""The garbage collector of a process that holds a whole cluster.

Python looks for unreachable cycles whenever some hundred objects more have been made than freed, and every so often
among all objects there are. With a cluster of 5,000 nodes and 20,000 pods in memory, that is half of the CPU time of
the first list, and 60 to 90 ms during which nothing else happens. There are next to no cycles here; what few there
are (of exceptions, mostly) can wait.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["keep_for_good", "rare_collections"]

#: Objects made in excess of those freed before the youngest are looked at, and how many times rarer the older ones are.
#: While a large group waits, all that is made for it stays; a look at the middle ones takes 30 to 45 ms with these.
_THRESHOLDS: Final = (20_000, 4, 125)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect rarely while the block runs, and whatever was kept for good may be collected again after it."""
    before = gc.get_threshold()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def keep_for_good() -> None:
    """Take what is there now for long-lived: it is not looked at again. Collects once."""
    gc.collect()
    gc.freeze()
