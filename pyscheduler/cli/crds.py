"""The CustomResourceDefinitions that plugins bring with them, in files of their distributions."""

from __future__ import annotations

from importlib import import_module, resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyscheduler.framework.interfaces import Plugin

__all__ = ["definitions_of"]


def definitions_of(plugins: Iterable[Plugin]) -> Iterator[tuple[str, str]]:
    """Yield the place and the YAML text of each file that plugins name in `crds`, each file once.

    Raises `ConfigError` for a file that cannot be read.
    """
    from pyscheduler.framework.errors import ConfigError

    seen: set[str] = set()
    for plugin in plugins:
        for place in plugin.crds:
            if place in seen:
                continue
            seen.add(place)
            package, _, path = place.partition(":")
            try:
                import_module(package)
                text = resources.files(package).joinpath(path).read_text(encoding="utf-8")
            except (ImportError, OSError, TypeError, ValueError) as error:
                raise ConfigError(
                    f'plugin "{plugin.name}" names "{place}" in `crds`, which cannot be read ({error}); write '
                    '"package:file.yaml", and let the distribution contain the file'
                ) from error
            yield place, text.strip() + "\n"
