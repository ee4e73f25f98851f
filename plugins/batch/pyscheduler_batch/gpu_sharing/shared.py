"""Where the plugins of this distribution find `GpuSharing`, without an import of it."""

from __future__ import annotations

from typing import Final

__all__ = ["SHARED_KEY"]

#: The key of `handle.shared`, for a mapping by profile.
SHARED_KEY: Final = "pyscheduler-batch/gpu-sharing"
