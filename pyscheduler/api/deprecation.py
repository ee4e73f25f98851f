"""Old names of public things: they stay importable for one version and warn."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["deprecated_names"]


def deprecated_names(package: str, replaced: Mapping[str, tuple[str, object]]) -> Callable[[str], object]:
    """Return a `__getattr__` for `package` that returns what old names stand for, with a `DeprecationWarning`.

    `replaced` has, for each old name, what to use instead, in words, and the object that the old name returns.
    """

    def load(name: str) -> object:
        if name not in replaced:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        instead, value = replaced[name]
        text = f"{package}.{name} is removed in the next version; use {instead}"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return value

    return load
