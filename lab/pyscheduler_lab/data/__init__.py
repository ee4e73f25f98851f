"""Published traces and node lists, each in a folder with its source and terms of use, and code that reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["FOLDER"]

FOLDER: Final = Path(__file__).parent
"""The folder with a folder for each source of data."""
