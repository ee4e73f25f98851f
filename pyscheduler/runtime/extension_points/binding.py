"""The extension points of the binding cycle: PreBindPreFlight, PreBind, Bind and PostBind.

Source: kube-scheduler 1.36, `RunPreBindPreFlights`, `RunPreBindPlugins`, `RunBindPlugins`, `RunPostBindPlugins`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import attrs

from pyscheduler.framework.interfaces import PreBindPreFlightResult
from pyscheduler.framework.status import Code, Status
from pyscheduler.runtime.extension_points.codes import unexpected_code
from pyscheduler.runtime.extension_points.plugin_calls import error_status
from pyscheduler.runtime.extension_points.run_context import context_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.runtime.extension_points.plugin_calls import PluginCalls, PluginMethod
    from pyscheduler.runtime.extension_points.run_context import RunContext

__all__ = ["Binding", "PreBindEntry", "PreBinding"]


@attrs.frozen
class PreBindEntry:
    """A PreBind plugin; without a pre-flight it has work for every pod, beside nobody else's."""

    method: PluginMethod
    pre_flight: PluginMethod | None


@attrs.frozen
class PreBinding:
    """The PreBind plugins of a profile, in its order."""

    calls: PluginCalls
    entries: Sequence[PreBindEntry]

    def pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Ask who has work to do for this pod: None when somebody has, SKIP when nobody, or an error."""
        began = self.calls.clock.now()
        context = context_of(state)
        status = self._pre_flight(context, state, pod, node_name)
        self.calls.point("PreBindPreFlight", status, began)
        return status

    def _pre_flight(self, context: RunContext, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        calls = self.calls
        skipped: set[str] = set()
        parallel: set[str] = set()
        for entry in self.entries:
            method = entry.pre_flight
            if method is None:
                continue
            answer = calls.run(method, pod, state, pod, node_name, sampled=context.sampled)
            if isinstance(answer, PreBindPreFlightResult):
                if answer.allow_parallel:
                    parallel.add(method.plugin)
                continue
            status = calls.status_of(method, pod, answer)
            if status is None:
                continue
            if status.is_error:
                return calls.wrapped(method, pod, status)
            if not status.is_skip:
                calls.failed(method, pod, TypeError(unexpected_code(method.point, status)))
                message = (
                    f'PreBindPreFlight {method.plugin} returned "{status.code.label}", which is unsupported. '
                    "It is supposed to return Success, Skip, or Error status"
                )
                return error_status(message, plugin=method.plugin)
            skipped.add(method.plugin)
        context.skip_pre_bind = skipped
        context.parallel_pre_bind = parallel
        return Status.skip() if len(skipped) == len(self.entries) else None

    async def run(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Run the plugins that have work, neighbours that allow it at once; the first failure ends the others."""
        began = self.calls.clock.now()
        context = context_of(state)
        status: Status | None = None
        for group in self._groups(context):
            context.in_pre_bind = group[0]
            if len(group) == 1:
                status = await self._pre_bind(group[0], context, state, pod, node_name)
            else:
                status = await self._together(group, context, state, pod, node_name)
            if status is not None:
                break
        self.calls.point("PreBind", status, began)
        return status

    def interrupted(self, state: CycleState) -> str:
        """Return how the message begins that tells of a plugin which was stopped at work."""
        at_work = context_of(state).in_pre_bind
        return f"{at_work.running}: " if at_work is not None else ""

    def _groups(self, context: RunContext) -> Iterator[Sequence[PluginMethod]]:
        """Yield the plugins with work, cut so that those of one group may run at once."""
        group: list[PluginMethod] = []
        for entry in self.entries:
            method = entry.method
            parallel = method.plugin in context.parallel_pre_bind
            if not parallel and group:
                # Even a plugin without work keeps those before it and those after it apart.
                yield group
                group = []
            if method.plugin in context.skip_pre_bind:
                continue
            if parallel:
                group.append(method)
            else:
                yield (method,)
        if group:
            yield group

    async def _pre_bind(
        self, method: PluginMethod, context: RunContext, state: CycleState, pod: Pod, node_name: str
    ) -> Status | None:
        calls = self.calls
        answer = await calls.run_async(method, pod, state, pod, node_name, sampled=context.sampled)
        status = calls.status_of(method, pod, answer)
        if status is None:
            return None
        return status.with_plugin(method.plugin) if status.is_rejected else calls.wrapped(method, pod, status)

    async def _together(
        self, group: Sequence[PluginMethod], context: RunContext, state: CycleState, pod: Pod, node_name: str
    ) -> Status | None:
        tasks = [
            asyncio.create_task(
                self._pre_bind(method, context, state, pod, node_name), name=f"pre-bind {pod.key} {method.plugin}"
            )
            for method in group
        ]
        try:
            for next_done in asyncio.as_completed(tasks):
                status = await next_done
                if status is not None:
                    return status
            return None
        finally:
            for task in tasks:
                task.cancel()
            # They must be over before the pod's reservation is undone.
            await asyncio.gather(*tasks, return_exceptions=True)


@attrs.frozen
class Binding:
    """The Bind and PostBind plugins of a profile, in its order."""

    calls: PluginCalls
    bind_methods: Sequence[PluginMethod]
    post_bind_methods: Sequence[PluginMethod]

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Let the first plugin that does not skip bind the pod; SKIP when all of them do."""
        calls = self.calls
        began = calls.clock.now()
        context = context_of(state)
        status: Status | None = Status.skip()
        for method in self.bind_methods:
            answer = await calls.run_async(method, pod, state, pod, node_name, sampled=context.sampled)
            status = calls.status_of(method, pod, answer)
            if status is None:
                context.bound_by = method
            if status is None or status.code != Code.SKIP:
                break
        if status is not None and status.code != Code.SKIP:
            status = status.with_plugin(method.plugin) if status.is_rejected else calls.wrapped(method, pod, status)
        calls.point("Bind", status, began)
        return status

    async def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Notify all plugins that the pod is bound, whatever single ones do."""
        calls = self.calls
        began = calls.clock.now()
        sampled = context_of(state).sampled
        for method in self.post_bind_methods:
            # A failure is logged and counted where it happens; the pod is bound all the same.
            calls.expect_nothing(
                method, pod, await calls.run_async(method, pod, state, pod, node_name, sampled=sampled)
            )
        calls.point("PostBind", None, began)
