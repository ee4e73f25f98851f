"""Connect batch profiles to a scheduler, which then schedules their pods in rounds over all jobs, not one by one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from pyscheduler.framework.errors import ConfigError
from pyscheduler_batch.model.batch_plugin import BatchPlugin
from pyscheduler_batch.sessions.eviction import Evictions
from pyscheduler_batch.sessions.filter_keys import filter_key
from pyscheduler_batch.sessions.source import Sessions
from pyscheduler_batch.sessions.submission import Submission
from pyscheduler_batch.sessions.tables import ClusterTables
from pyscheduler_batch.sessions.wait_texts import WaitTexts

if TYPE_CHECKING:
    import random

    from pyscheduler.runtime.profile import Profile
    from pyscheduler.scheduler.scheduler import Scheduler

__all__ = ["SessionPlugin", "add_sessions", "sessions_of"]

_WAITING: Final = "pyscheduler_batch_waiting_jobs"
_WAITING_HELP: Final = "Number of jobs of batch profiles that wait, by the first reason."


class SessionPlugin(BatchPlugin):
    """Inherit this besides `Plugin`: the scheduler then schedules the pods of the profile in sessions."""

    def add_work_source(self, scheduler: Scheduler, profile: Profile, rng: random.Random) -> None:
        """Add the sessions of the profile."""
        add_sessions(scheduler, profile, rng)


def add_sessions(scheduler: Scheduler, profile: Profile, rng: random.Random) -> None:
    """Add the source of work of a profile that enables a `BatchPlugin`.

    Raises `ConfigError` for a profile that cannot have one: it enables two such plugins, or a plugin that preempts.
    """
    plugins = [name for name, plugin in profile.plugins.items() if isinstance(plugin, BatchPlugin)]
    where = f"{profile.path}.plugins"
    problems = [f'a batch profile has one batch plugin, disable "{name}" @ {where}' for name in plugins[1:]]
    problems += [
        f'"{plugins[0]}" evicts pods by its actions, so disable "{name}", which does, too @ {where}.multiPoint'
        for name in profile.preemptors
    ]
    if problems:
        raise ConfigError(*problems)
    if not sessions_of(scheduler):
        scheduler.recorder.gauge(_WAITING, partial(_waiting_jobs, scheduler), description=_WAITING_HELP)
    _add(scheduler, profile, plugins[0], rng)


def sessions_of(scheduler: Scheduler) -> list[Sessions]:
    """Return the sessions of the batch profiles of a scheduler, in the order of the profiles."""
    return [source for source in scheduler.sources if isinstance(source, Sessions)]


def _waiting_jobs(scheduler: Scheduler) -> dict[tuple[tuple[str, str], ...], float]:
    """Return how many jobs wait, by profile and by the first reason."""
    counts: dict[tuple[tuple[str, str], ...], float] = {}
    for sessions in sessions_of(scheduler):
        for text in sessions.waiting.values():
            labels = (("profile", sessions.profile.name), ("reason", text.partition(":")[0]))
            counts[labels] = counts.get(labels, 0.0) + 1.0
    return counts


def _add(scheduler: Scheduler, profile: Profile, name: str, rng: random.Random) -> None:
    plugin = profile.plugins[name]
    assert isinstance(plugin, BatchPlugin), "only batch plugins have sessions"
    evictions = Evictions(handle=profile.handle, pods=scheduler.pods)
    texts = WaitTexts(profile=profile, plugin=plugin, scheduling=scheduler.scheduling, statuses=scheduler.statuses)
    scheduler.writers = (texts, *scheduler.writers)
    submission = Submission(
        profile=profile,
        plugin=plugin,
        scheduling=scheduler.scheduling,
        waiting_pods=scheduler.waiting_pods,
        statuses=scheduler.statuses,
        evictions=evictions,
        texts=texts,
    )
    tables = ClusterTables(plugin, profile.name, equivalence_key=partial(filter_key, profile))
    sessions = Sessions(
        profile=profile,
        plugin=plugin,
        submission=submission,
        tables=tables,
        rng=rng,
        wake=scheduler.work.wake,
        bind=scheduler.begin_to_bind,
    )
    evictions.on_failure = sessions.request
    sessions.register(scheduler.pods, scheduler.nodes)
    scheduler.add_source(sessions)
