"""The distributions of this repository beside the scheduler's own."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]

#: What others use without the scheduler, what extends it, and what runs it in virtual time.
PACKAGES: Final = sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml"))
PLUGINS: Final = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))
LAB: Final = ROOT / "lab"
BESIDE: Final = [*PACKAGES, *PLUGINS, LAB]


def package_of(folder: Path) -> str:
    """Return the import package of a distribution, given its folder; the scheduler's for the root."""
    if folder == ROOT:
        return "pyscheduler"
    name = folder.name.replace("-", "_")
    return name if folder in PACKAGES else f"pyscheduler_{name}"


def name_of(folder: Path) -> str:
    """Return the name of a distribution, given its folder."""
    if folder == ROOT:
        return "kube-pyscheduler"
    return folder.name if folder in PACKAGES else f"kube-pyscheduler-{folder.name}"


#: The folders of import packages that are not plugins.
FOLDERS: Final = [ROOT / "pyscheduler", *(folder / package_of(folder) for folder in (*PACKAGES, LAB))]
