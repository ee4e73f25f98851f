"""What the scheduler knows of nodes and of the pods on them.

Belongs here: the cache of assumed and bound pods (`cache`), the snapshot of it that a scheduling cycle works on
(`snapshot`), and the snapshot's columns: one array or index per quantity, kept up to date row by row (`columns`, `view`
and what they are built from).
Does not belong here: the API server, the queue, any policy. Events come in as method calls, nothing goes out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler import lazy_names

if TYPE_CHECKING:
    from pyscheduler.cache.cache import Cache as Cache
    from pyscheduler.cache.errors import CacheError as CacheError
    from pyscheduler.cache.snapshot import Snapshot as Snapshot

__all__ = [
    "Cache",
    "CacheError",
    "Snapshot",
]

_MODULES = {
    "Cache": "pyscheduler.cache.cache",
    "CacheError": "pyscheduler.cache.errors",
    "Snapshot": "pyscheduler.cache.snapshot",
}

__getattr__ = lazy_names(__name__, _MODULES)
