"""The console script `kubectl-queue`, which kubectl runs as `kubectl queue`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kube_pyscheduler import check_package

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["queue"]


def queue(arguments: Sequence[str] | None = None) -> None:
    """Run `kubectl queue`; exit as `pyscheduler` does if the package `pyscheduler` is another project's."""
    check_package()
    from pyscheduler_batch.cli.queue.command import main as run  # noqa: PLC0415 - after the check

    run(arguments)
