"""Validate a configuration after its defaults were filled in, with kube-scheduler's messages.

Differs from kube-scheduler: this module also rejects a plugin without a name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kube_objects.durations import format_duration
from kube_objects.names import is_extended_resource, label_key_errors
from pyscheduler.config.args_validation import args_problems
from pyscheduler.config.fields import camel
from pyscheduler.config.problems import Path, Problem, duplicate, invalid, path_text, required
from pyscheduler.config.types import (
    API_VERSION,
    Configuration,
    Extender,
    LeaderElection,
    Plugins,
    SchedulerProfile,
)

__all__ = ["problems_of"]

#: Plugins that version 1 of the configuration has removed.
_REMOVED: Final = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})


def problems_of(configuration: Configuration, gates: Mapping[str, bool]) -> Iterator[Problem]:
    """Yield the bad values of a completed configuration, in the order of the file."""
    if configuration.parallelism <= 0:
        yield invalid(("parallelism",), configuration.parallelism, "should be an integer value greater than zero")
    yield from _leader_election(configuration.leader_election)
    burst = configuration.client_connection.burst
    if burst < 0:
        yield invalid(("clientConnection", "burst"), burst, "must be non-negative")
    yield from _percentage((), configuration.percentage_of_nodes_to_score)
    yield from _backoff(configuration)
    names: dict[str, Path] = {}
    for index, profile in enumerate(configuration.profiles):
        path: Path = ("profiles", index)
        yield from _profile(path, profile, gates)
        here = (*path, "schedulerName")
        first = names.setdefault(profile.scheduler_name, here)
        if first is not here and profile.scheduler_name:
            yield duplicate(here, profile.scheduler_name, f"it is that of {path_text(first)}")
    yield from _common_queue_sort(configuration.profiles)
    yield from _extenders(configuration.extenders)


def _leader_election(election: LeaderElection) -> Iterator[Problem]:
    if not election.leader_elect:
        return
    durations = {
        "leaseDuration": election.lease_duration_seconds,
        "renewDeadline": election.renew_deadline_seconds,
        "retryPeriod": election.retry_period_seconds,
    }
    for key, seconds in durations.items():
        if seconds <= 0:
            yield invalid(("leaderElection", key), format_duration(seconds), "must be greater than zero")
    if election.lease_duration_seconds <= election.renew_deadline_seconds:
        # The message shows the other value, as in kube-scheduler.
        value = format_duration(election.renew_deadline_seconds)
        yield invalid(("leaderElection", "leaseDuration"), value, "must be greater than `RenewDeadline`")
    if election.resource_lock != "leases":
        yield invalid(("leaderElection", "resourceLock"), election.resource_lock, 'resourceLock value must be "leases"')


def _percentage(path: Path, percentage: int | None) -> Iterator[Problem]:
    if percentage is not None and not 0 <= percentage <= 100:
        yield invalid((*path, "percentageOfNodesToScore"), percentage, "not in valid range [0-100]")


def _backoff(configuration: Configuration) -> Iterator[Problem]:
    first, most = configuration.pod_initial_backoff_seconds, configuration.pod_max_backoff_seconds
    if first <= 0:
        yield invalid(("podInitialBackoffSeconds",), first, "must be greater than 0")
    if most < first:
        yield invalid(("podMaxBackoffSeconds",), most, "must be greater than or equal to PodInitialBackoffSeconds")


# --- profiles -----------------------------------------------------------------------------------


def _profile(path: Path, profile: SchedulerProfile, gates: Mapping[str, bool]) -> Iterator[Problem]:
    if not profile.scheduler_name:
        yield required((*path, "schedulerName"))
    yield from _percentage(path, profile.percentage_of_nodes_to_score)
    yield from _plugins((*path, "plugins"), profile.plugins)
    seen: set[str] = set()
    for index, config in enumerate(profile.plugin_config):
        here = (*path, "pluginConfig", index)
        if not config.name:
            yield required((*here, "name"))
        elif config.name in seen:
            yield duplicate(here, config.name)
        seen.add(config.name)
        if config.name in _REMOVED:
            yield _removed(here, config.name)
        else:
            yield from args_problems((*here, "args"), config.args, gates)


def _plugins(path: Path, plugins: Plugins) -> Iterator[Problem]:
    for point, chosen in plugins.sets():
        for index, entry in enumerate(chosen.enabled):
            here = (*path, camel(point), "enabled", index if entry.place is None else entry.place)
            if not entry.name:
                yield required((*here, "name"))
            if entry.name in _REMOVED:
                yield _removed(here, entry.name)
        for index, entry in enumerate(chosen.disabled):
            if not entry.name:
                yield required((*path, camel(point), "disabled", index, "name"))


def _removed(path: Path, name: str) -> Problem:
    return invalid(path, name, f'was invalid in version "v1" (KubeSchedulerConfiguration is version "{API_VERSION}")')


def _common_queue_sort(profiles: tuple[SchedulerProfile, ...]) -> Iterator[Problem]:
    """Yield problems if profiles have different queue orders; all profiles share one queue."""
    if not profiles:
        return
    first = profiles[0]
    canon = first.plugins.queue_sort
    if len(canon.enabled) > 1:
        path: Path = ("profiles", 0, "plugins", "queueSort", "enabled")
        yield invalid(path, len(canon.enabled), "only one queue sort plugin can be enabled")
    name = canon.enabled[0].name if canon.enabled else ""
    args = next((config.args for config in first.plugin_config if name and config.name == name), None)
    for index, profile in enumerate(profiles[1:], start=1):
        path = ("profiles", index)
        if profile.plugins.queue_sort != canon:
            names = [entry.name for entry in profile.plugins.queue_sort.enabled]
            yield invalid((*path, "plugins", "queueSort"), names, "must be the same for all profiles")
        for position, config in enumerate(profile.plugin_config):
            if name and config.name == name and config.args != args:
                here = (*path, "pluginConfig", position, "args")
                yield invalid(here, config.args, "queueSort must be the same for all profiles")


# --- extenders ----------------------------------------------------------------------------------


def _extenders(extenders: tuple[Extender, ...]) -> Iterator[Problem]:
    binders = 0
    managed: set[str] = set()
    for index, extender in enumerate(extenders):
        path: Path = ("extenders", index)
        if extender.prioritize_verb and extender.weight <= 0:
            yield invalid((*path, "weight"), extender.weight, "must have a positive weight applied to it")
        binders += bool(extender.bind_verb)
        for position, resource in enumerate(extender.managed_resources):
            here = (*path, "managedResources", position, "name")
            yield from _extended_resource(here, resource.name)
            if resource.name in managed:
                yield invalid(here, resource.name, "duplicate extender managed resource name")
            managed.add(resource.name)
    if binders > 1:
        found = f"found {binders} extenders implementing bind"
        yield invalid(("extenders",), found, "only one extender can implement bind")


def _extended_resource(path: Path, name: str) -> Iterator[Problem]:
    errors = label_key_errors(name)
    for error in errors:
        yield invalid(path, name, error)
    if not errors and not is_extended_resource(name):
        yield invalid(path, name, "is an invalid extended resource name")
