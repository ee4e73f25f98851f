"""Old names of public things: they stay importable for one version and warn."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["renamed_names"]


def renamed_names(package: str, renamed: Mapping[str, str]) -> Callable[[str], object]:
    """Return a `__getattr__` for `package` that maps old names to new ones, with a `DeprecationWarning`."""

    def load(name: str) -> object:
        if name not in renamed:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        text = f"{package}.{name} is now called {renamed[name]}; the old name is removed in the next version"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(sys.modules[package], renamed[name])

    return load
