"""Pods whose devices take long to find wait; other pods are scheduled, and the computing time is limited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from pyscheduler.api import Pod
from pyscheduler.plugins.dynamic_resources import long_work, patience
from pyscheduler.plugins.dynamic_resources.choice import Choice
from pyscheduler.plugins.dynamic_resources.long_work import LongWork
from pyscheduler.plugins.dynamic_resources.plugin import DynamicResources
from pyscheduler.plugins.dynamic_resources.worker import Computation
from pyscheduler.testing import FakeCluster, FakeFramework
from tests.cpu import slowness
from tests.plugins.devices import (
    DRIVER,
    add,
    cel,
    claim,
    device,
    device_class,
    devices_of,
    get_claim,
    request,
    resource_slice,
    using,
)
from tests.processes import PATIENCE_SECONDS

ONES = f"[{', '.join(['1'] * 300)}]"
#: Ninety thousand rounds, for each device anew.
LOOPS = f"{ONES}.all(x, {ONES}.all(y, x == y && device.attributes['{DRIVER}'].uuid != ''))"
TIMED_OUT = 'running "DynamicResources" filter plugin: node n0: timed out trying to allocate devices'


def work_of(framework: FakeFramework) -> LongWork:
    """Return the work of the plugin beside the scheduler."""
    plugin = framework.plugin("DynamicResources")
    assert isinstance(plugin, DynamicResources)
    return plugin._long_work


def devices(cluster: FakeCluster, *, nodes: int, each: int) -> None:
    """Add nodes whose devices all differ."""
    add(cluster, device_class())
    for node in range(nodes):
        cluster.add_node(f"n{node}")
        offered = [device(f"gpu-{n}", attributes={"uuid": {"string": f"{node}-{n}"}}) for n in range(each)]
        add(cluster, resource_slice(f"n{node}", *offered))


def hostile(cluster: FakeCluster, name: str, expression: str = LOOPS) -> Pod:
    """Add a pod with a claim whose selector takes long."""
    add(cluster, claim(name, request(selectors=[cel(expression)])))
    return cluster.add_pod(name, spec=using(name))


async def turns_until(reached: Callable[[], bool], *, seconds: float = 40.0) -> float:
    """Let the loop turn until a condition is true; return the most CPU seconds of the process between two turns.

    CPU time, because the wall time of a turn depends on the load of the machine.
    """
    longest, end = 0.0, time.process_time() + seconds
    last = time.process_time()
    while not reached():
        assert time.process_time() < end, "it takes too long"
        await asyncio.sleep(0)
        now = time.process_time()
        longest, last = max(longest, now - last), now
    return longest


@pytest.fixture
def few_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make cycles short and pauses rare, so that the tests end soon."""
    monkeypatch.setattr(long_work, "_PAUSES_PER_SECOND", 40)
    monkeypatch.setattr(patience, "PAUSES_PER_CYCLE", 2)
    monkeypatch.setattr(long_work, "PAUSES_PER_CYCLE", 2)


@pytest.mark.slow
async def test_a_selector_that_takes_for_ever_does_not_hold_the_loop(cluster: FakeCluster) -> None:
    """With ninety thousand rounds for each of ten thousand devices, other pods are bound; the message says why."""
    devices(cluster, nodes=100, each=100)
    framework = cluster.framework(args={"DynamicResources": {"filterTimeout": "200ms"}})
    await framework.start()
    hostile(cluster, "hostile")
    for number in range(20):
        cluster.add_pod(f"p{number}")

    def others_are_bound() -> bool:
        return all(cluster.pod(f"p{number}").spec.node_name for number in range(20))

    slow = slowness()
    longest = await turns_until(others_are_bound)
    assert "timed out" not in framework.result("hostile").message, "the pod is still worked on"
    longest = max(longest, await turns_until(lambda: framework.result("hostile").message == TIMED_OUT))
    # 25 to 45 ms were measured.
    assert longest < 0.1 * max(slow, slowness())
    assert not framework.result("hostile").bound


@pytest.mark.usefixtures("few_pauses")
async def test_a_pod_that_takes_longer_than_a_cycle_gets_its_devices(cluster: FakeCluster) -> None:
    """The pod waits until its selector has run for all devices, and is bound to the node with the right one."""
    devices(cluster, nodes=3, each=20)
    framework = cluster.framework()
    await framework.start()
    slow = f"lists.range(300).all(x, x >= 0) && device.attributes['{DRIVER}'].uuid == '2-7'"
    hostile(cluster, "slow", slow)
    await turns_until(lambda: bool(framework.result("slow").message))
    assert "3 devices for the pod are still being looked for" in framework.result("slow").message
    await turns_until(lambda: framework.result("slow").bound)
    assert framework.result("slow").node == "n2"
    assert devices_of(get_claim(cluster, "slow")) == ["n2/gpu-7"]
    assert not len(work_of(framework)), "what was found out is dropped once it has served"


@pytest.mark.usefixtures("few_pauses")
async def test_time_is_halved_by_namespace(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pod that runs out of time halves the time of the next one in its namespace; a quiet minute undoes that."""
    devices(cluster, nodes=1, each=3)
    framework = cluster.framework(args={"DynamicResources": {"filterTimeout": "1s"}})
    await framework.start()
    work = work_of(framework)
    assert work.seconds_for("default") == 1.0
    for number, left in enumerate((0.5, 0.25)):
        hostile(cluster, f"h{number}")
        await turns_until(lambda name=f"h{number}": framework.result(name).message == TIMED_OUT)  # type: ignore[misc]
        assert work.seconds_for("default") == pytest.approx(left)
    assert work.seconds_for("other") == 1.0
    later = cluster.clock.now() + 60.0
    monkeypatch.setattr(cluster.clock, "now", lambda: later)
    assert work.seconds_for("default") == pytest.approx(0.5)


@pytest.mark.usefixtures("few_pauses")
async def test_namespaces_are_worked_on_side_by_side(cluster: FakeCluster) -> None:
    """A namespace with many slow pods does not delay the pods of another."""
    devices(cluster, nodes=1, each=3)
    framework = cluster.framework(args={"DynamicResources": {"filterTimeout": "3s"}})
    await framework.start()
    for number in range(6):
        hostile(cluster, f"h{number}")
    work = work_of(framework)
    await turns_until(lambda: len(work) == 6)
    expression = f"lists.range(300).all(x, x >= 0) && device.attributes['{DRIVER}'].uuid == '0-2'"
    add(cluster, {**claim("c", request(selectors=[cel(expression)])), "metadata": {"name": "c", "namespace": "other"}})
    cluster.add_pod("p", spec=using("c"), namespace="other")
    await turns_until(lambda: bool(cluster.pod("p", namespace="other").spec.node_name))
    assert len(work) >= 5, "the others are still worked on"
    assert len(work._running) == 1, "one at a time of a namespace"


@pytest.mark.usefixtures("few_pauses")
async def test_pods_that_are_gone_are_not_worked_on(cluster: FakeCluster) -> None:
    """Work on a pod ends when the pod is deleted."""
    devices(cluster, nodes=1, each=3)
    framework = cluster.framework()
    await framework.start()
    hostile(cluster, "h")
    work = work_of(framework)
    await turns_until(lambda: len(work) == 1)
    cluster.delete_pod("h")
    await turns_until(lambda: len(work) == 0)


@pytest.mark.usefixtures("few_pauses")
async def test_a_bug_costs_one_attempt(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An error in the work is logged, and the pod is retried."""
    devices(cluster, nodes=1, each=3)
    framework = cluster.framework()
    await framework.start()

    def look_at(*_: object) -> None:
        raise ArithmeticError("a bug")

    monkeypatch.setattr(Choice, "look_at", look_at)
    hostile(cluster, "h")
    await turns_until(lambda: "Looking for devices failed pod=default/h" in caplog.text)
    await turns_until(lambda: len(work_of(framework)) == 1)


@pytest.mark.usefixtures("few_pauses")
async def test_closing_ends_the_work(cluster: FakeCluster) -> None:
    """A scheduler that stops leaves no running thread."""
    devices(cluster, nodes=1, each=3)
    framework = cluster.framework(args={"DynamicResources": {"filterTimeout": "10s"}})
    await framework.start()
    hostile(cluster, "h")
    work = work_of(framework)
    await turns_until(lambda: len(work._running) == 1)
    (job,) = work._running
    computation = job._computation
    assert computation is not None
    await turns_until(lambda: computation._thread is not None)
    await framework.close()
    thread = computation._thread
    assert thread is not None
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()


def test_a_computation_pauses_where_it_is() -> None:
    """A computation continues where it paused, at any depth; `step` raises the error of the function."""
    seen: list[int] = []

    def down(depth: int) -> None:
        if depth:
            down(depth - 1)
            seen.append(depth)
            computation.pause()

    computation = Computation(lambda: down(3))
    assert [computation.step() for _ in range(5)] == [False, False, False, True, True]
    assert seen == [1, 2, 3]

    def fail() -> None:
        failing.pause()
        raise ValueError("no")

    failing = Computation(fail)
    assert not failing.step()
    with pytest.raises(ValueError, match="no"):
        failing.step()
    assert failing.step()


def test_an_abandoned_computation_ends() -> None:
    """A closed computation ends where it paused; handlers of other errors do not catch that."""
    ended: list[str] = []

    def run() -> None:
        try:
            computation.pause()
        except Exception:  # noqa: BLE001 - shows that nothing of the kind passes by
            ended.append("error")
        finally:
            ended.append("over")

    computation = Computation(run)
    assert not computation.step()
    computation.close()
    assert ended == ["over"]
    assert computation.step()
    Computation(run).close()
