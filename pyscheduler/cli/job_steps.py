"""Explain the state of a pod's job, for `pyscheduler explain POD`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import attrs

from pyscheduler.cli.added_commands import added
from pyscheduler.cli.unread_kinds import refused_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyscheduler.api import Pod, ResourceKind
    from pyscheduler.cli.explain_options import ExplainOptions
    from pyscheduler.cli.explanation import Step
    from pyscheduler.cluster.object_sources import Read
    from pyscheduler.config.types import Configuration
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.scheduler.scheduler import Scheduler

__all__ = ["JobSteps", "PodQuestion", "job_steps"]


@attrs.frozen(kw_only=True)
class PodQuestion:
    """A pod without a node, and what was read of its cluster."""

    pod: Pod
    #: The profile that evaluates the pod: its own, or the first one if no profile has its schedulerName.
    profile: Profile
    #: A scheduler with the profiles of the configuration that has read the cluster. It schedules nothing.
    scheduler: Scheduler
    #: Returns the objects of a kind; each kind is listed once.
    read: Read
    #: The resources that may not be listed; `read` adds them.
    unread: list[str]
    #: The configuration of the scheduler: that of `--config`, of the leader, or the default.
    config: Configuration
    options: ExplainOptions

    def refused(self, kinds: Iterable[ResourceKind]) -> list[str]:
        """Return which of some kinds may not be listed, once they were read."""
        return refused_of(kinds, self.unread)

    @property
    def is_served(self) -> bool:
        """Return True if a profile of the configuration has the pod's schedulerName."""
        return self.pod.scheduler_name == self.profile.name


@attrs.frozen(kw_only=True)
class JobSteps:
    """The steps of the job that a pod belongs to."""

    steps: Sequence[Step]
    #: The verdict about the job if the pod is placed with its job only: `waits`, or another word. The steps then stand
    #: in place of the pod's own search for a node. "" if the pod is evaluated by itself, too.
    verdict: str = ""
    #: What the job waits for, in words; "" to leave that to the pod.
    next: str = ""
    #: The configuration that was assumed because no profile has the pod's schedulerName; "" for none.
    assumed: str = ""


async def job_steps(question: PodQuestion, notes: list[str]) -> JobSteps | None:
    """Return the steps of the pod's job; None for a pod without one. Failures are added to `notes`."""
    from pyscheduler.cli.group_steps import group_steps

    targets = {**added("POD_STEPS"), "groups": f"{group_steps.__module__}:{group_steps.__name__}"}
    for name, target in targets.items():
        module, _, function = str(target).partition(":")
        try:
            found: JobSteps | None = await getattr(import_module(module), function)(question)
        except Exception as error:  # noqa: BLE001 - another distribution's code may raise anything
            notes.append(f"the steps of the pod's job are left out, because of {name}: {error}")
            continue
        if found is not None:
            return found
    return None
