"""PostFilter, which runs if no node fits, and Reserve, Unreserve and Permit, which run after a node is chosen.

Source: kube-scheduler 1.36, `RunPostFilterPlugins`, `RunReservePluginsReserve`, `...Unreserve`, `RunPermitPlugins`.

Differs from kube-scheduler: a Permit plugin that returns WAIT must also return a timeout above zero.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeGuard

import attrs

from pyscheduler.framework.interfaces import PostFilterResult
from pyscheduler.framework.status import Code, Status
from pyscheduler.runtime.extension_points.codes import unexpected_code
from pyscheduler.runtime.extension_points.plugin_calls import PluginMethod
from pyscheduler.runtime.extension_points.run_context import context_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.framework.node_statuses import NodeStatuses
    from pyscheduler.runtime.extension_points.plugin_calls import PluginCalls

__all__ = ["Permitting", "PostFiltering", "Release", "Releasing", "ReservesPods", "Reserving", "reserve", "try_reserve"]

#: Frees what a pod holds on a node; returns what books it again.
Release: TypeAlias = "Callable[[Pod, str], Sequence[Callable[[], None]]]"

_HELD: Final = "one or more plugins asked to wait and no plugin rejected pod"


class ReservesPods(Protocol):
    """A profile, as far as Reserve and Permit are concerned."""

    def run_reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Run Reserve."""
        ...

    def run_unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Undo Reserve."""
        ...

    def run_permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, Mapping[str, float]]:
        """Run Permit."""
        ...


def reserve(
    profile: ReservesPods,
    state: CycleState,
    pod: Pod,
    node_name: str,
    *,
    unreserve: Callable[[], object] | None = None,
) -> tuple[Status | None, Mapping[str, float]]:
    """Run Reserve and Permit for a pod that is on its node already: in the cache, or in a statement on the snapshot.

    Return None, or Permit's WAIT with the seconds that each plugin holds the pod at most. Any other status is a
    rejection or an error, and Unreserve has run; `unreserve` is called in place of the profile's.
    """
    timeouts: Mapping[str, float] = {}
    status = profile.run_reserve(state, pod, node_name)
    if status is None:
        status, timeouts = profile.run_permit(state, pod, node_name)
    if status is None or status.is_wait:
        return status, timeouts
    if unreserve is None:
        profile.run_unreserve(state, pod, node_name)
    else:
        unreserve()
    return status, timeouts


def try_reserve(profile: ReservesPods, state: CycleState, pod: Pod, node_name: str) -> Status | None:
    """Return the answer of Reserve for a pod that is on its node in a statement; Unreserve has run."""
    status = profile.run_reserve(state, pod, node_name)
    profile.run_unreserve(state, pod, node_name)
    return status


@attrs.frozen
class PostFiltering:
    """The PostFilter plugins of a profile, in its order."""

    calls: PluginCalls
    methods: Sequence[PluginMethod]

    async def run(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses, *, runs: Collection[str] | None = None
    ) -> tuple[PostFilterResult | None, Status]:
        """Run plugins until one succeeds, fails or says that nothing can help; else join what they said.

        `runs` names the plugins that run; None: all.
        """
        began = self.calls.clock.now()
        methods = [method for method in self.methods if runs is None or method.plugin in runs]
        result, status = await self._run(methods, state, pod, statuses)
        self.calls.point("PostFilter", status, began)
        return result, status

    async def _run(
        self, methods: Sequence[PluginMethod], state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        calls = self.calls
        sampled = context_of(state).sampled
        kept: PostFilterResult | None = None
        reasons: list[str] = []
        retries: list[float] = []
        for method in methods:
            answer = await calls.run_async(method, pod, state, pod, statuses, sampled=sampled)
            if isinstance(answer, Status) and answer.is_error:
                return None, answer
            if not _is_answer(answer):
                return None, calls.wrong_type(method, pod, answer, "a pair (PostFilterResult or None, Status)")
            result, status = answer
            if status.code in {Code.SUCCESS, Code.UNSCHEDULABLE_AND_UNRESOLVABLE}:
                return result, status.with_plugin(method.plugin)
            if not status.is_rejected:
                if not status.is_error:
                    calls.failed(method, pod, TypeError(unexpected_code(method.point, status)))
                return None, Status(Code.ERROR, plugin=method.plugin, error=status.as_error() or _unexpected(status))
            if result is not None and result.nominating_info is not None and result.nominating_info.override:
                kept = result
            reasons.extend(status.reasons)
            if status.retry_after_seconds is not None:
                retries.append(status.retry_after_seconds)
        rejector = self.methods[0].plugin if self.methods else ""
        return kept, Status(
            Code.UNSCHEDULABLE, reasons, plugin=rejector, retry_after_seconds=min(retries, default=None)
        )


def _is_answer(answer: object) -> TypeGuard[tuple[PostFilterResult | None, Status]]:
    if not (isinstance(answer, tuple) and len(answer) == 2):
        return False
    result, status = answer
    return isinstance(status, Status) and (result is None or isinstance(result, PostFilterResult))


def _unexpected(status: Status) -> Exception:
    return RuntimeError(f"unexpected status {status.code.label}")


@attrs.frozen
class Reserving:
    """The Reserve plugins of a profile, in its order; both tuples hold the same plugins."""

    calls: PluginCalls
    reserve_methods: Sequence[PluginMethod]
    unreserve_methods: Sequence[PluginMethod]

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Run all plugins; the first rejection or error ends it, and the caller unreserves."""
        calls = self.calls
        began = calls.clock.now()
        sampled = context_of(state).sampled
        status: Status | None = None
        for method in self.reserve_methods:
            answer = calls.run(method, pod, state, pod, node_name, sampled=sampled)
            status = calls.status_of(method, pod, answer)
            if status is not None:
                status = status.with_plugin(method.plugin) if status.is_rejected else calls.wrapped(method, pod, status)
                break
        calls.point("Reserve", status, began)
        return status

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Run all plugins in reverse order, whatever single ones do."""
        calls = self.calls
        began = calls.clock.now()
        sampled = context_of(state).sampled
        for method in reversed(self.unreserve_methods):
            answer = calls.run(method, pod, state, pod, node_name, sampled=sampled)
            # A failure is logged and counted where it happens; there is nobody to answer to.
            calls.expect_nothing(method, pod, answer)
        calls.point("Unreserve", None, began)


@attrs.frozen
class Releasing:
    """The plugins of a profile that free in a trial what an evicted pod holds (`release_in_trial`).

    `need_methods` are those of plugins whose pods hold resources for other pods (`is_needed_by_others`).
    """

    calls: PluginCalls
    methods: Sequence[PluginMethod]
    need_methods: Sequence[PluginMethod]

    def is_needed_by_others(self, pod: Pod) -> bool | None:
        """Return whether other pods need what the pod holds for them; None for a pod that holds its own resources."""
        for method in self.need_methods:
            answer = self.calls.run(method, pod, pod)
            if isinstance(answer, bool):
                return answer
            if answer is not None and not isinstance(answer, Status):
                self.calls.wrong_type(method, pod, answer, "True, False or None")
        return None

    def release(self, *, state: CycleState | None = None, without: Collection[str] = ()) -> Release | None:
        """Return what frees the books of these plugins; None if there are none.

        With `state`, plugins whose filter has nothing to say about the pod of that cycle are left out.
        """
        if not self.methods:
            return None
        skipped = context_of(state).skip_filter if state is not None else ()
        methods = [each for each in self.methods if each.plugin not in without and each.plugin not in skipped]
        return partial(self._release, methods) if methods else None

    def _release(self, methods: Sequence[PluginMethod], pod: Pod, node_name: str) -> list[Callable[[], None]]:
        calls = self.calls
        restores: list[Callable[[], None]] = []
        for method in methods:
            answer = calls.run(method, pod, pod, node_name)
            if callable(answer):
                again = PluginMethod(plugin=method.plugin, point=method.point, call=answer, running=method.running)
                restores.append(partial(self._restore, again, pod))
            elif answer is not None and not isinstance(answer, Status):
                calls.wrong_type(method, pod, answer, "a function or None")
        return restores

    def _restore(self, method: PluginMethod, pod: Pod) -> None:
        self.calls.run(method, pod)


@attrs.frozen
class Permitting:
    """The Permit plugins of a profile, in its order; `max_wait_seconds` by plugin."""

    calls: PluginCalls
    methods: Sequence[PluginMethod]
    max_wait_seconds: Mapping[str, float]

    def run(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, Mapping[str, float]]:
        """Run all plugins; a WAIT comes with the seconds that each plugin holds the pod at most.

        The first rejection or error ends it, whoever asked to wait before.
        """
        began = self.calls.clock.now()
        timeouts: dict[str, float] = {}
        status = self._run(state, pod, node_name, timeouts)
        self.calls.point("Permit", status, began)
        return status, timeouts

    def _run(self, state: CycleState, pod: Pod, node_name: str, timeouts: dict[str, float]) -> Status | None:
        calls = self.calls
        sampled = context_of(state).sampled
        held: list[Status] = []
        for method in self.methods:
            answer = calls.run(method, pod, state, pod, node_name, sampled=sampled)
            status = calls.status_of(method, pod, answer)
            if status is None:
                continue
            if not status.is_wait:
                timeouts.clear()
                return status.with_plugin(method.plugin) if status.is_rejected else calls.wrapped(method, pod, status)
            seconds = status.timeout_seconds
            if not isinstance(seconds, (int, float)) or not seconds > 0:
                # A wait that is over as it begins would be tried again at once, for ever; an error backs off.
                timeouts.clear()
                error = ValueError("returned WAIT without a timeout in seconds; use Status.wait(timeout=...)")
                return calls.failed(method, pod, error)
            timeouts[method.plugin] = min(seconds, self.max_wait_seconds[method.plugin])
            held.append(status.with_plugin(method.plugin))
        if not held:
            return None
        # The first of them to run out ends the wait.
        shortest = min(timeouts.values())
        reasons = dict.fromkeys(reason for each in held for reason in each.reasons)
        return Status(Code.WAIT, (*reasons, _HELD), plugin=held[-1].plugin, timeout_seconds=shortest)
