"""Published traces and node lists, each in a folder with its source and terms; and readers of files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["FOLDER"]

FOLDER: Final = Path(__file__).parent
"""The folder with a folder for each source of data."""
