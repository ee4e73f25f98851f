"""Read manifests from files that are named on the command line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyscheduler.framework.errors import ConfigError, os_error_text

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["manifest_text", "manifests_of"]


def manifests_of(file: str) -> list[dict[str, Any]]:
    """Return the objects of a file; - reads standard input. Raises `ConfigError` if it cannot be read."""
    from pyscheduler.cluster.manifest_objects import read_manifests

    try:
        text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise ConfigError(os_error_text(error), source=file) from error
    return read_manifests(text, source="standard input" if file == "-" else file)


def manifest_text(files: Iterable[str]) -> str:
    """Return the objects of manifests as one YAML text; raise `ConfigError` for a file that cannot be read."""
    import json

    # JSON is YAML; a `List` is taken apart.
    return "\n---\n".join(json.dumps(one) for file in files for one in manifests_of(file))
