"""What users write into objects, where it comes to logs, events and arithmetic."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from pyscheduler.telemetry.logs import configure
from pyscheduler.testing import FakeCluster, pod_manifest
from tests.threats.attack import HOLD_SECONDS, add_nodes, assert_ordinary_pod_is_bound, plant, settled_holds

FORGED = 'x\n2026-01-01T00:00:00.000000Z info pyscheduler Successfully bound pod=a/b\r\x1b[2J\u2028" err="é\x00'
HOSTILE = {
    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": FORGED}}],
    "containers": [{"name": "c", "image": FORGED}],
    "nodeSelector": {"a": FORGED},
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("json_lines", [False, True], ids=["key=value", "JSON"])
@pytest.mark.parametrize("field", HOSTILE)
async def test_a_text_in_an_object_forges_no_line_of_the_log(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str], field: str, json_lines: bool
) -> None:
    """Each line begins with a time of this program, or is one JSON object; nothing moves the cursor of a terminal."""
    configure(verbosity=9, json=json_lines)
    add_nodes(cluster, 2)
    framework = cluster.framework()
    await framework.start()
    plant(cluster, [pod_manifest("forger", spec={field: HOSTILE[field]}, annotations={"note": FORGED})])
    await settled_holds(cluster)
    await assert_ordinary_pod_is_bound(framework)
    lines = capsys.readouterr().err.removesuffix("\n").split("\n")
    assert any("forger" in line for line in lines)
    assert all(line.isprintable() for line in lines if not line.startswith("\t"))
    for line in lines:
        if json_lines:
            assert msgspec.json.decode(line)["logger"].startswith("pyscheduler")
        else:
            assert re.match(r"\S+Z \w+ pyscheduler\S* |\t", line)
            assert not line.startswith("2026-01-01T00:00:00.000000Z info pyscheduler Successfully bound pod=a/b")


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "amount",
    [
        pytest.param("1e2147483647", id="exponent"),
        pytest.param("9" * 100_000, id="digits"),
        pytest.param("9" * 100_000 + "Ei", id="digits and a suffix"),
        pytest.param("9223372036854775807", id="the largest integer"),
    ],
)
async def test_an_absurd_amount_fits_nowhere(cluster: FakeCluster, amount: str) -> None:
    """The pod waits with the usual message; the sum with others does not overflow."""
    add_nodes(cluster, 3)
    framework = cluster.framework()
    await framework.start()
    requests: dict[str, Any] = {"cpu": amount, "memory": amount}
    containers = [{"name": f"c{i}", "resources": {"requests": requests}} for i in range(2)]
    plant(cluster, [pod_manifest("absurd", spec={"containers": containers})])
    assert (await settled_holds(cluster)).longest < HOLD_SECONDS
    assert framework.result("absurd").message.startswith("0/3 nodes are available: 3 Insufficient cpu, 3 Insufficient")
    await assert_ordinary_pod_is_bound(framework)


@pytest.mark.parametrize("priority", [2**31 - 1, -(2**31)])
async def test_an_extreme_priority_is_an_order_only(cluster: FakeCluster, priority: int) -> None:
    """A pod with the highest or lowest number that fits nowhere does not keep others from their nodes."""
    add_nodes(cluster, 3)
    framework = cluster.framework()
    result = await framework.schedule("extreme", priority=priority, node_selector={"nowhere": "x"})
    assert not result.bound
    await assert_ordinary_pod_is_bound(framework)
