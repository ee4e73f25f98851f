"""The kubelet in miniature: bound pods run, deleted ones go."""

from __future__ import annotations

from typing import Any

import pytest

PODS = "/api/v1/namespaces/default/pods"


async def bind(api: Any, name: str) -> None:
    """Bind a pod."""
    await api.ok("POST", f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": {"name": "n"}})


async def phase(api: Any, name: str) -> str:
    """Return the phase of a pod, or that it is gone."""
    status, found = await api("GET", f"{PODS}/{name}")
    return found["status"]["phase"] if status == 200 else "gone"


@pytest.fixture
def lifecycle(cluster: Any) -> Any:
    """Yield a lifecycle that takes two seconds to start a pod and five to stop it."""
    made = cluster.lifecycle(start_seconds=2.0, stop_seconds=5.0)
    yield made
    made.stop()


async def test_a_bound_pod_becomes_running(api: Any, pod: Any, clock: Any, lifecycle: Any) -> None:
    """After its time to start, a bound pod is running and ready; an unbound one stays pending."""
    lifecycle.start()
    await api.ok("POST", PODS, pod("p"))
    await api.ok("POST", PODS, pod("unbound"))
    await bind(api, "p")
    await clock.advance(1.9)
    assert await phase(api, "p") == "Pending"
    await clock.advance(0.2)
    assert await phase(api, "unbound") == "Pending"
    running = await api.ok("GET", f"{PODS}/p")
    assert (running["status"]["phase"], running["status"]["startTime"]) == ("Running", "2027-01-15T08:00:02Z")
    conditions = {one["type"]: one["status"] for one in running["status"]["conditions"]}
    assert conditions["Ready"] == conditions["PodScheduled"] == "True"
    assert running["status"]["containerStatuses"][0]["ready"]


async def test_a_deleted_pod_goes_after_its_grace(api: Any, pod: Any, clock: Any, lifecycle: Any) -> None:
    """A pod on its way out is let go after the time to stop, or its own shorter grace."""
    lifecycle.start()
    for name, grace in (("long", 30), ("short", 1)):
        await api.ok("POST", PODS, pod(name, terminationGracePeriodSeconds=grace))
        await bind(api, name)
    await clock.advance(3)
    for name in ("long", "short"):
        await api.ok("DELETE", f"{PODS}/{name}")
    await clock.advance(1.5)
    assert [await phase(api, name) for name in ("long", "short")] == ["Running", "gone"]
    await clock.advance(4)
    assert await phase(api, "long") == "gone"


async def test_a_pod_deleted_before_it_started_never_runs(api: Any, pod: Any, clock: Any, lifecycle: Any) -> None:
    """Being on the way out wins over starting, and a pod that is gone is left alone."""
    lifecycle.start()
    for name in ("marked", "gone"):
        await api.ok("POST", PODS, pod(name))
        await bind(api, name)
    await clock.advance(1)
    await api.ok("DELETE", f"{PODS}/marked")
    await api.ok("DELETE", f"{PODS}/gone", gracePeriodSeconds="0")
    await clock.advance(2)
    assert [await phase(api, name) for name in ("marked", "gone")] == ["Pending", "gone"]


async def test_pods_from_before_are_taken_up(api: Any, pod: Any, clock: Any, lifecycle: Any) -> None:
    """What was bound or marked before the start is dealt with as well."""
    for name in ("bound", "marked"):
        await api.ok("POST", PODS, pod(name))
        await bind(api, name)
    await api.ok("DELETE", f"{PODS}/marked")
    lifecycle.start()
    await clock.advance(6)
    assert [await phase(api, name) for name in ("bound", "marked")] == ["Running", "gone"]


async def test_being_overtaken_by_the_log_costs_nothing(
    api: Any, pod: Any, clock: Any, lifecycle: Any, cluster: Any
) -> None:
    """When the log forgets what was not read yet, everything is looked at again."""
    lifecycle.start()
    await api.ok("POST", PODS, pod("p"))
    await bind(api, "p")
    cluster.store.compact()
    await clock.advance(3)
    assert await phase(api, "p") == "Running"


async def test_a_stopped_lifecycle_does_nothing_more(api: Any, pod: Any, clock: Any, lifecycle: Any) -> None:
    """After stop, nothing starts and nothing goes; stopping twice is fine."""
    lifecycle.start()
    await api.ok("POST", PODS, pod("p"))
    await bind(api, "p")
    await clock.advance(1)
    await api.ok("POST", PODS, pod("q"))
    lifecycle.stop()
    lifecycle.stop()
    await clock.advance(10)
    assert await phase(api, "p") == "Pending"


async def test_a_pod_of_the_same_name_is_another_pod(api: Any, pod: Any, clock: Any, lifecycle: Any) -> None:
    """What was planned for a pod does not befall its successor."""
    lifecycle.start()
    await api.ok("POST", PODS, pod("p"))
    await bind(api, "p")
    await clock.advance(1.5)
    await api.ok("DELETE", f"{PODS}/p", gracePeriodSeconds="0")
    await api.ok("POST", PODS, pod("p"))
    await clock.advance(1)
    assert await phase(api, "p") == "Pending"
