"""The console scripts of the distribution kube-pyscheduler.

The scripts exit with a message if another project's package `pyscheduler` has replaced ours.
"""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["check_package", "main", "podgroup"]

#: The folder of the metadata of a distribution `pyscheduler`, in any spelling of that name.
_FOREIGN_METADATA: Final = re.compile(r"pyscheduler-.+\.(dist|egg)-info", re.IGNORECASE)
_REINSTALL: Final = "pip install --force-reinstall --no-deps kube-pyscheduler"
_REPAIR: Final = f'run "pip uninstall pyscheduler", then "{_REINSTALL}"'


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `pyscheduler`; exit with code 1 and one line on stderr if the package `pyscheduler` is not this project's."""
    with _interruptible():
        check_package()
        from pyscheduler.cli.main import main as run

        run(arguments)


def podgroup(arguments: Sequence[str] | None = None) -> None:
    """Run `kubectl podgroup`; exit as `main` does if the package `pyscheduler` is not this project's."""
    with _interruptible():
        check_package()
        from pyscheduler.cli.podgroup.command import main as run

        run(arguments)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Exit with code 130 after Ctrl-C, also while modules are imported."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(130)


def check_package() -> None:
    """Exit if `pyscheduler` is another project's package; warn if the other project is installed in the same folder."""
    try:
        import pyscheduler

        ours = hasattr(pyscheduler, "lazy_names")
    except Exception:  # noqa: BLE001 - another project's code may raise anything
        ours = False
    if not ours:
        sys.stderr.write(f"error: {_conflict()}\n")
        sys.exit(1)
    folder = Path(pyscheduler.__file__).parents[1]
    if any(_FOREIGN_METADATA.fullmatch(path.name) for path in folder.iterdir()):
        sys.stderr.write(
            'warning: another project, the distribution "pyscheduler", is installed into the same folder '
            f"{folder / 'pyscheduler'}; {_REPAIR}\n"
        )


def _conflict() -> str:
    """Return why `pyscheduler` is not this project's package, and how to repair the installation."""
    from importlib.util import find_spec

    spec = find_spec("pyscheduler")
    if spec is not None and spec.origin is not None:
        return (
            f'{spec.origin} belongs to another project, the distribution "pyscheduler" of the package index, and hides '
            f"kube-pyscheduler; {_REPAIR}"
        )
    return (
        "pyscheduler/__init__.py of kube-pyscheduler is missing, as after an uninstallation of another project, the "
        f'distribution "pyscheduler"; run "{_REINSTALL}"'
    )
