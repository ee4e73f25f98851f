"""`CacheError`, raised for a call that contradicts the cache, such as the removal of an unknown pod."""

from __future__ import annotations

from pyscheduler.framework.errors import PySchedulerError

__all__ = ["CacheError"]


class CacheError(PySchedulerError, ValueError):
    """Report a call that contradicts what the cache holds; the cache is unchanged, so log it and go on."""
