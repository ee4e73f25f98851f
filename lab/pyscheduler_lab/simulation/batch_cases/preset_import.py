"""Import the Python package for a batch system, such as `pyscheduler_kai` for KAI."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

from pyscheduler.framework.errors import ConfigError
from pyscheduler.runtime.assembly.discovery import discover

__all__ = ["system_of"]


def system_of(preset: str) -> Any:
    """Return the class that names the actions and policies of a preset, for example `kube-batch`.

    Raises `ConfigError` if no distribution that is installed offers it.
    """
    offer = discover().extensions().systems.get(preset)
    if offer is None:
        raise ConfigError(
            f'preset "{preset}": the distribution kube-pyscheduler-{preset} is not installed; '
            f'run "pip install kube-pyscheduler-{preset}"'
        )
    return resolve_name(offer.target)
