"""Run scenarios step by step, and check after each step that no node is overcommitted."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import attrs

from pyscheduler.framework.errors import PySchedulerError
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler_lab.simulation.scenario import CompletePods, DeletePods
from pyscheduler_lab.simulation.scenario_config import configure
from pyscheduler_lab.simulation.scenario_report import PodState, Result, StepState
from pyscheduler_lab.simulation.simulated_cluster import SimulatedCluster, StepError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyscheduler.runtime.assembly.registry import Registry
    from pyscheduler_lab.simulation.pod_history import SeenPod
    from pyscheduler_lab.simulation.scenario import Expect, ProfileSpec, Scenario, Step

__all__ = ["run_scenario"]

#: Interval between checks of an expectation with a time limit, in seconds.
_LOOK_SECONDS = 1.0


def run_scenario(
    scenario: Scenario, profile: ProfileSpec, *, seed: int = 0, registry: Registry | None = None
) -> Result:
    """Run one scenario on its profile, in an event loop of its own; errors are reported as failures.

    The same `seed` gives the same history. `registry` holds the plugins (default: all installed plugins).
    """
    registry = registry if registry is not None else discover()
    config = configure(scenario, profile)
    try:
        config.check(registry)
        world = SimulatedCluster(config, registry=registry, seed=f"{seed}/{scenario.id}")
        return asyncio.run(_Run(scenario, world).run())
    except PySchedulerError as error:
        return Result(id=scenario.id, passed=False, failures=[f"profile {scenario.profile}: {error}"], steps=[])


@attrs.define
class _Run:
    scenario: Scenario
    world: SimulatedCluster
    failures: list[str] = attrs.Factory(list)
    #: The current step, for messages.
    where: str = "start"
    #: Minimum by set: the sets that must not run partially, unless the scenario removes pods from them.
    whole: dict[str, int] = attrs.Factory(dict)
    _complaints: set[str] = attrs.Factory(set)
    _waiting: int = -1

    async def run(self) -> Result:
        """Run the steps."""
        self.whole = dict(self.scenario.never_partial)
        self.world.at_rest = self.check
        steps: list[StepState] = []
        try:
            await self.world.start(self.scenario.nodes)
            for number, step in enumerate(self.scenario.steps):
                self.where = f"step {number} ({step.kind})"
                await self._step(step)
                steps.append(self._state(number))
        except StepError as error:
            # An error of the whole cluster: the scenario cannot continue.
            self._fail(str(error))
        finally:
            await self.world.close()
        return Result(id=self.scenario.id, passed=not self.failures, failures=self.failures, steps=steps)

    async def _step(self, step: Step) -> None:
        what = step.what
        if step.kind == "expect":
            await self._expect(what)
        elif step.kind == "advance":
            await self.world.advance(what)
        elif step.kind == "restart":
            await self.world.restart(what)
        else:
            for each in what if step.kind == "batch" else (step,):
                self._do(each)
        await self.world.settle()

    def _do(self, step: Step) -> None:
        """Execute a step that takes no time."""
        try:
            if isinstance(step.what, DeletePods | CompletePods):
                self._let_go(step.what)
            getattr(self.world, step.kind)(step.what)
        except (StepError, PySchedulerError) as error:
            self._fail(str(error))

    def _let_go(self, step: DeletePods | CompletePods) -> None:
        """Stop to require the minimum of a set whose pods a step removes."""
        if isinstance(step, DeletePods):
            keys = {f"{namespace}/{name}" for namespace, name in self.world.pods_to_delete(step)}
        else:
            keys = {name if "/" in name else f"default/{name}" for name in step.pods}
        for seen in self.world.seen.live():
            if seen.pod.key in keys:
                self.whole.pop(seen.set, None)

    def _fail(self, message: str) -> None:
        self.failures.append(f"{self.where}, {self.world.time:g} s: {message}")

    # --- what must always be true ----------------------------------------------------------------

    def check(self) -> None:
        """Check the invariants of the cluster at rest."""
        seen = self.world.seen
        seen.all()
        waiting = len(seen.scheduler.waiting_pods) if seen.scheduler is not None else 0
        if not seen.is_news and waiting == self._waiting:
            return
        seen.is_news = False
        self._waiting = waiting
        complaints = set(seen.overcommitted())
        if self.whole:
            bound = seen.counts("bound")
            complaints |= {
                f"set {name} is partial: {bound[name]} bound, the minimum is {least}"
                for name, least in self.whole.items()
                if 0 < bound[name] < least
            }
        for complaint in sorted(complaints - self._complaints):
            self._fail(complaint)
        self._complaints = complaints

    # --- what is expected ------------------------------------------------------------------------

    async def _expect(self, expect: Expect) -> None:
        end = self.world.time + expect.within
        while (wrong := list(self._wrong(expect))) and self.world.time < end:
            await self.world.advance(min(_LOOK_SECONDS, end - self.world.time))
        for each in wrong:
            self._fail(each + (f", after {expect.within:g} s" if expect.within else ""))

    def _wrong(self, expect: Expect) -> Iterator[str]:
        """Yield every unmet expectation."""
        seen = self.world.seen
        for state in ("bound", "waiting", "pending"):
            wanted: Mapping[str, int] = getattr(expect, state)
            counts: Counter[str] = seen.counts(state) if wanted else Counter()
            for name, count in wanted.items():
                if counts[name] != count:
                    yield f"set {name}: {counts[name]} pods are {state}, not {count}"
        if expect.bound_total is not None:
            total = sum(seen.counts("bound").values())
            if total != expect.bound_total:
                yield f"{total} pods are bound in total, expected {expect.bound_total}"
        yield from self._wrong_messages(expect)
        yield from self._wrong_objects(expect)

    def _wrong_messages(self, expect: Expect) -> Iterator[str]:
        seen = self.world.seen
        for quantity, wanted in ((any, expect.reason_any), (all, expect.reason_all)):
            for name, parts in wanted.items():
                pending = [each for each in seen.live(name) if seen.state(each) == "pending"]
                for part in parts:
                    if not pending or not quantity(part in each.message for each in pending):
                        word = (
                            "no pending pod has the message"
                            if quantity is any
                            else "not every pending pod has the message"
                        )
                        yield f'set {name}: {word} "{part}", but {_told(pending)}'
        for is_wanted, texts in ((True, expect.events), (False, expect.no_events)):
            for name, parts in texts.items():
                said = [message for each in seen.all() if name in each.sets for message in each.messages]
                for part in parts:
                    if any(part in message for message in said) is not is_wanted:
                        yield f'set {name}: {"no message contains" if is_wanted else "a message contains"} "{part}"'

    def _wrong_objects(self, expect: Expect) -> Iterator[str]:
        seen = self.world.seen
        for name, values in expect.annotation_all.items():
            pods = list(seen.live(name))
            for key, value in values.items():
                without = [each.pod.name for each in pods if each.pod.annotations.get(key) != value]
                if without or not pods:
                    yield f"set {name}: annotation {key} is not {value!r} on {', '.join(without) or 'any pod'}"
        for name, keys in expect.annotation_none.items():
            for key in keys:
                having = [each.pod.name for each in seen.live(name) if key in each.pod.annotations]
                if having:
                    yield f"set {name}: annotation {key} is on {', '.join(having)}"
        if expect.phase:
            phases = {_set(key): phase for key, phase in self.world.phases().items()}
            for name, phase in expect.phase.items():
                if phases.get(name) != phase:
                    yield f"group {name}: the phase is {phases.get(name, 'that of no object')!r}, not {phase!r}"

    # --- what is shown ---------------------------------------------------------------------------

    def _state(self, number: int) -> StepState:
        seen = self.world.seen
        pods: dict[str, PodState] = {}
        for each in seen.all():
            key = each.pod.key
            if key in pods and each.is_gone:
                continue  # another pod of the same name exists
            state = seen.state(each)
            pods[key] = PodState(
                state=state,
                node=seen.node(each),
                set=None if state == "gone" else each.set,
                message=each.message,
                messages=list(each.messages),
                annotations=dict(sorted(each.pod.annotations.items())),
            )
        groups = {key: {"phase": phase} for key, phase in self.world.phases().items()}
        return StepState(step=number, time=round(self.world.time, 6), pods=dict(sorted(pods.items())), groups=groups)


def _told(pods: list[SeenPod]) -> str:
    said = Counter(each.message or "nothing" for each in pods)
    return "; ".join(f"{count} say: {text}" for text, count in said.items()) or "no pod is pending"


def _set(key: str) -> str:
    return key.removeprefix("default/")
