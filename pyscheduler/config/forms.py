"""Read configuration that was written for another scheduler: a whole file, or the args of one of its plugins.

A Python package offers a reader (`ConfigurationForm`) through an entry point in the group `pyscheduler.configuration`.
"""

from __future__ import annotations

import importlib.metadata
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

from pyscheduler.config.types import KIND
from pyscheduler.framework.errors import ConfigError
from pyscheduler.framework.in_tree_args import IN_TREE_ARGS

if TYPE_CHECKING:
    from pyscheduler.config.types import Configuration, PluginConfig, Plugins

__all__ = ["ConfigurationForm", "expanded", "form_of", "has_forms", "in_file", "placed_in_file", "with_forms"]

_GROUP: Final = "pyscheduler.configuration"

_log = logging.getLogger(__name__)


class ConfigurationForm(Protocol):
    """Reads the files of another scheduler, and knows the args of its plugins."""

    def reads(self, root: Mapping[str, object]) -> bool:
        """Return whether the content of a file has this form."""
        ...

    def content(self, root: Mapping[str, object], gates: Mapping[str, bool]) -> Mapping[str, object]:
        """Return the content of the KubeSchedulerConfiguration that a file stands for, without kind and version.

        Raises `ConfigError` with a line for each mistake.
        """
        ...

    def placed(self, root: Mapping[str, object]) -> Callable[[str], str]:
        """Return what turns the paths of a message about that content into paths of the file; it can be pickled."""
        ...

    def with_plugins(self, plugins: Plugins, configs: Iterable[PluginConfig]) -> Plugins:
        """Return the plugins of a profile as these args change them."""
        ...

    def expanded(self, config: PluginConfig) -> PluginConfig:
        """Return args in full, as `pyscheduler config` prints them."""
        ...


def form_of(root: Mapping[str, object]) -> ConfigurationForm | None:
    """Return the form of a file's content; None for a KubeSchedulerConfiguration and what no form reads."""
    if root.get("kind") == KIND:
        return None
    return next((form for form in _forms(tuple(sys.path)) if form.reads(root)), None)


def has_forms() -> bool:
    """Return whether an installed distribution reads files of another form."""
    return bool(_forms(tuple(sys.path)))


def with_forms(plugins: Plugins, configs: Iterable[PluginConfig]) -> Plugins:
    """Return the plugins of a profile as the args of plugins change them that are not kube-scheduler's."""
    others = [each for each in configs if each.name not in IN_TREE_ARGS]
    for form in _forms(tuple(sys.path)) if others else ():
        plugins = form.with_plugins(plugins, others)
    return plugins


def expanded(config: PluginConfig) -> PluginConfig:
    """Return args in full."""
    for form in _forms(tuple(sys.path)) if config.name not in IN_TREE_ARGS else ():
        config = form.expanded(config)
    return config


def in_file(messages: Iterable[str], configuration: Configuration) -> list[str]:
    """Return messages about a configuration with the paths of its file, if that has another form."""
    placed = configuration.placed
    return [*messages] if placed is None else [*map(placed, messages)]


@contextmanager
def placed_in_file(configuration: Configuration) -> Iterator[None]:
    """Let a `ConfigError` that the block raises have the paths of the configuration's file."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(*in_file(error.problems, configuration), source=error.source) from error


@lru_cache(maxsize=4)
def _forms(path: tuple[str, ...]) -> tuple[ConfigurationForm, ...]:  # noqa: ARG001 - the cache's key
    """Return the forms of all distributions that are installed on this `sys.path`, without broken ones."""
    forms: list[ConfigurationForm] = []
    for point in sorted(importlib.metadata.entry_points(group=_GROUP), key=lambda each: each.name):
        try:
            forms.append(point.load())
        except (Exception, SystemExit) as error:  # noqa: BLE001 - another distribution's code may raise anything
            _log.warning("Form of configuration is left out entryPoint=%s err=%r", point.value, error)
    return tuple(forms)
