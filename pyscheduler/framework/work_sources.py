"""The interface of plugins that schedule the pods of their profile themselves, such as the plugin `Batch`.

Such a plugin decides which pods are next, and takes these pods from the scheduling queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pyscheduler.framework.errors import ConfigError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework.watches import PolicyRule

__all__ = ["WorkSourcePlugin"]


class WorkSourcePlugin:
    """Inherit this besides `Plugin` to schedule the pods of the profile by a source of work."""

    #: Rules for requests that other plugins of the profile make only for pods that this source never places. They are
    #: left out of the permissions of the profile.
    needless_rbac: ClassVar[Sequence[PolicyRule]] = ()

    def add_work_source(self, scheduler: Any, profile: Any, rng: random.Random) -> None:  # noqa: ANN401 - of rooms above
        """Make the source and hand it to `scheduler.add_source`; called once, when the scheduler has been built.

        `scheduler` is a `pyscheduler.scheduler.scheduler.Scheduler`, and `profile` one of its profiles. Raises
        `ConfigError` with a line for each reason why the profile cannot have the source.
        """
        raise NotImplementedError

    def prepare_args(self, args: object) -> Callable[[], object]:
        """Check new args from the configuration file; return what puts them in force for the next work.

        Raises `ConfigError` for args that cannot be used, or that cannot change while the plugin runs.
        """
        raise ConfigError("the args of this plugin cannot change while the scheduler runs; restart it")

    def note_of_single_pod(self, profile: str, pod: Pod) -> str:
        """Return what `pyscheduler explain` says beside its evaluation of one pod with a profile; "" for nothing."""
        return ""
