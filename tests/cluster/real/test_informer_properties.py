"""Whatever happens to objects, watches and server, in whatever order: in the end the copy equals the API."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings, strategies as st

NAMES = ["a", "b", "c", "d"]

OPERATIONS = st.one_of(
    st.tuples(st.sampled_from(["add", "change", "remove", "reborn", "break", "mend"]), st.sampled_from(NAMES)),
    st.tuples(st.just("drop"), st.sampled_from(["end", "cut", "within"])),
    st.tuples(st.just("compact"), st.none()),
    st.tuples(st.just("prime"), st.none()),
    st.tuples(st.just("fault"), st.sampled_from([404, 410, 429, 500, 503])),
    st.tuples(st.just("lose"), st.sampled_from(["request", "answer"])),
    st.tuples(st.just("advance"), st.sampled_from([0.0, 0.1, 1.0, 70.0])),
)


class OperationsOnStage:
    """A stage, the operations on it, and which of its objects cannot be read."""

    def __init__(self, stage: Any) -> None:
        self.stage = stage
        self.names: set[str] = set()
        self.unreadable: set[str] = set()

    async def do(self, pods: Any, what: str, argument: Any) -> None:
        stage = self.stage
        match what:
            case "drop":
                stage.drop_watches(argument)
            case "compact":
                stage.cluster.store.compact()
            case "prime":
                if not self.unreadable:
                    pods.prime(stage.states())
            case "fault":
                stage.fault(path="/pods$", status=argument, times=2)
            case "lose":
                stage.fault(path="/pods$", lose=argument, times=2)
            case "advance":
                await stage.clock.advance(argument)
            case _:
                self.write(what, argument)

    def write(self, what: str, argument: str) -> None:
        stage = self.stage
        match what:
            case "add" if argument not in self.names:
                self.names.add(argument)
                stage.add_pod(argument)
            case "change" if argument in self.names:
                stage.change_pod(argument, version=str(stage.cluster.store.version))
            case "remove" if argument in self.names:
                self.names.discard(argument)
                self.unreadable.discard(argument)
                stage.remove_pod(argument)
            case "reborn" if argument in self.names:
                self.unreadable.discard(argument)
                stage.remove_pod(argument)
                stage.add_pod(argument)
            case "break" if argument in self.names:
                self.unreadable.add(argument)
                self.set_priority(argument, "very")
            case "mend" if argument in self.names:
                self.unreadable.discard(argument)
                self.set_priority(argument, 7)

    def set_priority(self, name: str, value: object) -> None:
        self.stage.change(("v1", "Pod"), name, "default", lambda pod: pod["spec"].update(priority=value))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(operations=st.lists(OPERATIONS, max_size=40))
def test_copy_equals_the_api(
    stage_type: Callable[[], Any], ledger_type: Callable[[], Any], operations: list[Any]
) -> None:
    """Handlers are told a story without contradictions, and it ends with what the API server has."""

    async def play() -> None:
        stage = stage_type()
        world = OperationsOnStage(stage)
        pods = stage.informer()
        ledger = ledger_type().listen(pods)
        pods.start()
        await stage.clock.advance(0.0)
        for operation in operations:
            await world.do(pods, *operation)
        stage.cluster.faults.clear()
        await stage.clock.advance(300)
        try:
            assert pods.synced
            assert stage.warnings["handler_failed"] == stage.warnings["informer_failed"] == 0
            stage.assert_equal(pods, ledger, but=world.unreadable)
            assert {pod.name for pod in pods} <= world.names
        finally:
            await stage.close()

    asyncio.run(play())
