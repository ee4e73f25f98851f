"""The presets of batch scheduling, imported by name: they belong to a distribution of its own."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pyscheduler.framework.errors import ConfigError

__all__ = ["load_symbol", "preset_module"]


def preset_module(preset: str) -> Any:
    """Return the module that lists the actions and policies of a preset, for example `kube-batch`.

    Raises `ConfigError` if the distribution is not installed.
    """
    try:
        return import_module(f"pyscheduler_batch.{preset.replace('-', '_')}.preset")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f'preset "{preset}": the distribution kube-pyscheduler-batch is not installed; '
            'run "pip install kube-pyscheduler-batch"'
        ) from error


def load_symbol(target: str) -> Any:
    """Return what `module:Name` names."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)
