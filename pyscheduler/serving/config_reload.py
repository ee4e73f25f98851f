"""Reload the configuration file when it changes.

New args of the plugin `Batch` take effect without a restart. Other changes need a restart.

Source: Volcano `pkg/scheduler/scheduler.go`.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.config.fields import fields_of
from pyscheduler.config.forms import in_file
from pyscheduler.config.load import loads
from pyscheduler.config.types import Configuration
from pyscheduler.framework.errors import ConfigError, os_error_text
from pyscheduler.framework.work_sources import WorkSourcePlugin

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyscheduler.config.types import SchedulerProfile
    from pyscheduler.scheduler.scheduler import Scheduler

__all__ = ["ConfigReloader"]

_log = logging.getLogger(__name__)

_PERIOD_SECONDS: Final = 10.0


class ConfigReloader:
    """Reloads the args of plugins with a source of work. `config` is the configuration in force.

    `with_flags` returns the configuration that a file and the flags of the command line make together.
    """

    def __init__(
        self,
        path: str,
        config: Configuration,
        gates: Mapping[str, bool],
        scheduler: Scheduler,
        *,
        with_flags: Callable[[Configuration], Configuration] = lambda config: config,
    ) -> None:
        self.config = config
        #: Whether the file says something else than what is in force; None before it was looked at.
        self.is_stale: bool | None = None
        self._with_flags = with_flags
        self._path = path
        self._gates = gates
        self._scheduler = scheduler
        #: What the file said when it was looked at last; None before, or if it could not be read.
        self._seen: bytes | None = None
        self._has_failed = False
        scheduler.recorder.gauge(
            "pyscheduler_config_stale", lambda: {} if self.is_stale is None else {(): float(self.is_stale)}
        )

    async def run(self) -> None:
        """Look at the file at once and then every ten seconds, until cancelled."""
        while True:
            try:
                await self.look()
            except Exception as error:  # a bug here must not end the scheduler, nor later looks  # noqa: BLE001
                _log.exception("Configuration was not reloaded file=%s", self._path, exc_info=error)
                self._scheduler.recorder.warning("config_not_reloaded")
            await self._scheduler.clock.sleep(_PERIOD_SECONDS)

    async def look(self) -> None:
        """Read the file, and take it over if it changed."""
        try:
            content = await asyncio.to_thread(Path(self._path).read_bytes)
        except OSError as error:
            if not self._has_failed:
                self._refuse(f"{self._path}: {os_error_text(error)}")
            self._seen, self._has_failed = None, True
            return
        if content == self._seen:
            return
        self._seen, self._has_failed = content, False
        try:
            new = loads(content.decode("utf-8-sig"), source=self._path, gates=self._gates)
            self._take_over(self._with_flags(new))
        except (ConfigError, UnicodeDecodeError) as error:
            self._refuse(" / ".join(str(error).splitlines()))

    def _refuse(self, why: str) -> None:
        self.is_stale = True
        self._scheduler.recorder.warning("config_not_reloaded")
        _log.error("Configuration was not reloaded; the last one stays in force file=%s err=%s", self._path, why)

    def _take_over(self, new: Configuration) -> None:
        """Take over the args of these plugins, of all or of none; raise `ConfigError` if some cannot be used."""
        profiles = {profile.scheduler_name: profile for profile in new.profiles}
        changes: list[Callable[[], object]] = []
        taken: dict[str, SchedulerProfile] = {}
        for profile in self.config.profiles:
            running, wanted = self._scheduler.profiles[profile.scheduler_name], profiles.get(profile.scheduler_name)
            sources = ((name, each) for name, each in running.plugins.items() if isinstance(each, WorkSourcePlugin))
            name, plugin = next(sources, ("", None))
            if plugin is None or wanted is None or _args(wanted, name) == _args(profile, name):
                continue
            try:
                changes.append(plugin.prepare_args(_args(wanted, name)))
            except ConfigError as error:
                raise ConfigError(*in_file(error.problems, new), source=self._path) from error
            kept = tuple(each for each in profile.plugin_config if each.name != name)
            changed = tuple(each for each in wanted.plugin_config if each.name == name)
            taken[profile.scheduler_name] = attrs.evolve(profile, plugin_config=kept + changed)
        for change in changes:
            change()
        now = tuple(taken.get(profile.scheduler_name, profile) for profile in self.config.profiles)
        self.config = attrs.evolve(self.config, profiles=now)
        if changes:
            _log.info("Reloaded the args of batch profiles file=%s profiles=%s", self._path, ",".join(taken))
        self._compare(new)

    def _compare(self, new: Configuration) -> None:
        """Note whether the file has changes that need a restart, and log what these changes concern."""
        was_stale = self.is_stale
        fields = _differences(self.config, new)
        self.is_stale = bool(fields)
        if fields:
            text = "The configuration file has changes that need a restart file=%s fields=%s"
            _log.warning(text, self._path, ",".join(fields))
        elif was_stale:
            _log.info("The configuration file says what is in force again file=%s", self._path)


def _args(profile: SchedulerProfile, plugin: str) -> object:
    return next((each.args for each in profile.plugin_config if each.name == plugin), None)


def _differences(one: Configuration, other: Configuration) -> list[str]:
    """Return the fields of the file whose values differ; the order of the args of plugins has no meaning."""
    keys = {field.attribute: key for key, field in fields_of(Configuration).items()}
    one, other = (attrs.evolve(each, profiles=_sorted(each.profiles)) for each in (one, other))
    return [key for name, key in keys.items() if getattr(one, name) != getattr(other, name)]


def _sorted(profiles: tuple[SchedulerProfile, ...]) -> tuple[SchedulerProfile, ...]:
    """Return the profiles with the args of their plugins in one order."""
    return tuple(
        attrs.evolve(profile, plugin_config=tuple(sorted(profile.plugin_config, key=lambda each: each.name)))
        for profile in profiles
    )
