"""Traces and node lists that come with the lab, each in a folder with its notice; and the reading of tables.

Belongs here: data of others with source and terms, and code that reads files without knowing what they mean.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["FOLDER"]

FOLDER: Final = Path(__file__).parent
"""The folder with a folder for each source of data."""
