"""Read the zip file that `/debug/snapshot` returns: the objects and the configuration of a scheduler."""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import Final

from pyscheduler.framework.errors import ConfigError

__all__ = ["CONFIGURATION", "OBJECTS", "is_snapshot", "members"]

#: The member with the configuration, and how the names of those with objects begin.
CONFIGURATION: Final = "configuration.json"
OBJECTS: Final = "objects/"
_ZIP: Final = b"PK\x03\x04"


def is_snapshot(content: bytes) -> bool:
    """Return whether the content of a file is a zip file."""
    return content.startswith(_ZIP)


def members(content: bytes, prefix: str, *, source: str) -> list[bytes]:
    """Return the members whose names begin with `prefix`, in their order.

    Raises `ConfigError` if there is none, or if the file is damaged.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            found = [archive.read(name) for name in archive.namelist() if name.startswith(prefix)]
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise ConfigError(f"the zip file is incomplete or damaged: {error}; fetch it again", source=source) from error
    if not found:
        raise ConfigError(f"no {prefix} in this zip file; give one of /debug/snapshot", source=source)
    return found
