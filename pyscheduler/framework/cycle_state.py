"""`CycleState`: data that a plugin keeps between the extension points of one scheduling cycle.

The scheduler clones the state for trials, such as the search for preemption victims. So a value that a plugin changes
after PreFilter needs a method `clone`.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar, cast, overload, runtime_checkable

from kube_objects.errors import PySchedulerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyscheduler.api import Pod
    from pyscheduler.framework.trial import Trial

__all__ = [
    "AFTER_FAILURE",
    "PODS_TO_ACTIVATE",
    "AfterFailure",
    "CycleState",
    "PodsToActivate",
    "StateData",
    "StateKey",
    "StateNotFoundError",
]

T = TypeVar("T")
D = TypeVar("D")


class StateKey(str, Generic[T]):
    """A key that remembers the type of its value; by custom `PluginName` or `PluginName/what`."""

    __slots__ = ()


class StateNotFoundError(PySchedulerError, KeyError):
    """Nothing was written under that key in this cycle (the plugin's PreFilter or PreScore did not run).

    The words are those of kube-scheduler's plugins, for whoever disables an extension point that others build on.
    """

    def __init__(self, key: str) -> None:
        super().__init__(f'reading "{key}" from cycleState: not found')

    def __str__(self) -> str:
        # A KeyError would put its text in quotes.
        return Exception.__str__(self)


@runtime_checkable
class StateData(Protocol):
    """A value that must not be shared between a cycle and its what-if copies."""

    def clone(self) -> StateData:
        """Return a copy that can be changed without being seen here."""
        ...


class CycleState:
    """A small typed dictionary, one per pod and cycle. Not shared between pods; needs no lock.

    `trial` is None in the cycle of a pod that is scheduled for real. Otherwise the results of the cycle are taken back:
    see `framework.trial` for what plugins must not do then. `joint` is the same object for all pods that are scheduled
    together or are members of one group, and stays when their trial ends; None for a pod that is scheduled by itself.
    """

    __slots__ = ("_data", "_run", "joint", "trial")

    def __init__(self, trial: Trial | None = None) -> None:
        self._data: dict[str, object] = {}
        #: The runtime's own notes on this cycle (which plugins it skips); plugins have no use for it.
        self._run: object | None = None
        self.trial: Trial | None = None
        self.joint: object | None = None
        if trial is not None:
            self.begin_trial(trial)

    def begin_trial(self, trial: Trial) -> None:
        """Mark everything that follows as part of a trial; for the scheduler."""
        self.trial = self.joint = trial
        self._data.update(trial.former_keys())

    def end_trial(self) -> None:
        """Mark what follows as real; for the scheduler."""
        if self.trial is not None:
            for key in self.trial.former_keys():
                self._data.pop(key, None)
            self.trial = None

    def read(self, key: StateKey[T]) -> T:
        """Return the value under `key`; raise `StateNotFoundError` when there is none."""
        try:
            return cast("T", self._data[key])
        except KeyError:
            raise StateNotFoundError(key) from None

    @overload
    def get(self, key: StateKey[T]) -> T | None: ...
    @overload
    def get(self, key: StateKey[T], default: D) -> T | D: ...
    def get(self, key: StateKey[T], default: D | None = None) -> T | D | None:
        """Return the value under `key`, or `default`."""
        return cast("T | D | None", self._data.get(key, default))

    def write(self, key: StateKey[T], value: T) -> None:
        """Keep `value` under `key`, replacing what was there."""
        self._data[key] = value

    def delete(self, key: StateKey[T]) -> None:
        """Drop `key`; nothing happens when it is absent."""
        self._data.pop(key, None)

    def written(self) -> dict[str, object]:
        """Return what is kept, by key; the mapping is a copy, the values are not."""
        return self._data.copy()

    def write_all(self, data: Mapping[str, object]) -> None:
        """Keep all of `data`, by key."""
        self._data.update(data)

    def clone(self) -> CycleState:
        """Return a copy whose `StateData` values are cloned and whose other values are shared."""
        copy = CycleState()
        copy.trial, copy.joint = self.trial, self.joint
        copy._data = {
            key: value.clone() if hasattr(value, "clone") else value  # a Protocol isinstance is ten times slower
            for key, value in self._data.items()
        }
        copy._run = self._run
        return copy


class PodsToActivate:
    """Pods that a plugin wants back in activeQ, by `namespace/name`.

    They move at the end of a successful scheduling cycle, and again at the end of a successful binding cycle.
    """

    __slots__ = ("pods",)

    def __init__(self, pods: Iterable[Pod] = ()) -> None:
        self.pods: dict[str, Pod] = {pod.key: pod for pod in pods}

    def clone(self) -> PodsToActivate:
        """Return itself: what-if copies of a state share the one list, as in kube-scheduler."""
        return self


#: Written by the scheduler into every cycle's state; plugins add to its `pods`.
PODS_TO_ACTIVATE: Final[StateKey[PodsToActivate]] = StateKey("kubernetes.io/pods-to-activate")


class AfterFailure:
    """The effects of a failed attempt. A plugin may set the fields until the end of Unreserve.

    `serve_backoff`: the pod serves its backoff in full; it is not popped early, whatever SchedulerPopFromBackoffQ says.
    `ignored_by(pod)` is True for pods that ignore the end of this pod's reservation or nomination; the event wakes all
    other pods. A plugin that rolls back a group returns True for its members. Otherwise the room that one member gives
    back would wake the other members, and they would be rolled back again. Set the same function, or an equal one, for
    all members: the queue then leaves out pods that failed with an equal function without a call for each.
    `room_for`: the pod stands for a group that can start when so many pods like it find room (`podgroup.places_needed`
    counts them). While it is backing off, an event that a plugin which rejected it finds worth an attempt has the
    scheduler look whether there is that much room, and try the pod at once where there is. With 0 it is not looked for.
    `is_unfinished`: the plugin goes on working beside the scheduler, and activates the pod at the end. If the attempt
    before failed with an error, the pod keeps that message and the length of its backoff until then.
    """

    __slots__ = ("ignored_by", "is_unfinished", "room_for", "serve_backoff")

    def __init__(self) -> None:
        self.serve_backoff = False
        self.is_unfinished = False
        self.room_for = 0
        self.ignored_by: Callable[[Pod], bool] | None = None

    @property
    def quiet_for(self) -> Callable[[Pod], bool] | None:
        """Return `ignored_by`, under its old name; deprecated."""
        warnings.warn("AfterFailure.quiet_for is now called ignored_by", DeprecationWarning, stacklevel=2)
        return self.ignored_by

    @quiet_for.setter
    def quiet_for(self, value: Callable[[Pod], bool] | None) -> None:
        warnings.warn("AfterFailure.quiet_for is now called ignored_by", DeprecationWarning, stacklevel=2)
        self.ignored_by = value

    def clone(self) -> AfterFailure:
        """Return itself: what-if copies of a state share the one, as with `PodsToActivate`."""
        return self


#: Written by the scheduler into every cycle's state; plugins change it.
AFTER_FAILURE: Final[StateKey[AfterFailure]] = StateKey("pyscheduler/after-failure")
