"""Time-based fair shares: past use is counted, kept over restarts, asked from Prometheus, and lowers shares."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from aiohttp import web
from hypothesis import example, given, settings, strategies as st

from kube_testserver.serving.faults import Fault
from pyscheduler.api import ConfigMap
from pyscheduler_batch.sessions.assembly import sessions_of
from pyscheduler_batch.usage.ledger import PARTS, Part, UsageLedger
from pyscheduler_batch.usage.prometheus import PrometheusError, PrometheusUsage
from pyscheduler_batch.usage.saved import load, stored
from pyscheduler_batch.usage.settings import UsageSettings
from pyscheduler_batch.usage.usage import usage_rules

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

USAGE = "usageDBConfig: {clientType: scheduler, usageParams: {halfLifePeriod: 10m}}"
NO_QUOTA = {"quota": 0, "limit": -1, "overQuotaWeight": 1}
GPU = "nvidia.com/gpu"


def _settings(**fields: Any) -> UsageSettings:
    return UsageSettings(source="scheduler", connection="kube-system/use", **fields)


# --- the counts

STEPS = st.lists(
    st.tuples(
        st.floats(0.5, 400.0),
        st.floats(1.0, 50.0),
        st.dictionaries(st.sampled_from("abc"), st.floats(0.0, 1.0), max_size=3),
    ),
    min_size=1,
    max_size=8,
)
_CASES: Counter[str] = Counter()


def _brute(steps: Sequence[tuple[float, float, dict[str, float]]], begin: float, half_life: float) -> dict[str, float]:
    """Integrate each step by its formula, from `begin` on."""
    now = sum(seconds for seconds, _, _ in steps)
    held: Counter[str] = Counter()
    capacity, at = 0.0, 0.0
    for seconds, total, amounts in steps:
        first, last = max(at, begin), at + seconds
        at = last
        if first >= last:
            continue
        rate = math.log(2.0) / half_life if half_life else 0.0
        weight = (
            (math.exp(-rate * (now - last)) - math.exp(-rate * (now - first))) / rate if half_life else last - first
        )
        capacity += total * weight
        for name, part in amounts.items():
            held[name] += total * part * weight
    return {name: amount / capacity for name, amount in held.items()}


@settings(deadline=None)
@given(steps=STEPS, half_life=st.sampled_from([0.0, 60.0, 5000.0]), tumbles=st.booleans())
@example(steps=[(400.0, 10.0, {"a": 0.5}), (400.0, 20.0, {"b": 1.0})] * 3, half_life=60.0, tumbles=True)
def test_counts_equal_the_integral(
    steps: list[tuple[float, float, dict[str, float]]], half_life: float, *, tumbles: bool
) -> None:
    """A window that has room for all, or that begins anew at a known time, loses nothing else."""
    window = 1000.0 if tumbles else 1e6
    kind = "tumbling" if tumbles else "sliding"
    ledger = UsageLedger(_settings(half_life=half_life, window=window, window_type=kind), 1)
    now = 0.0
    for seconds, total, amounts in steps:
        ledger.note(now, np.array([total]), {name: [total * part] for name, part in amounts.items()})
        now += seconds
    found = {name: float(part[0]) for name, part in ledger.usage(now).items()}
    begin = math.floor(now / window) * window if tumbles else 0.0
    _CASES[f"{kind}, half-life {half_life:g} s, {'began anew' if begin else 'whole'}"] += 1
    # What a half-life of a minute leaves after twenty of them is dropped.
    error = 1e-3 if half_life == 60.0 else 1e-9
    for name, wanted in _brute(steps, begin, half_life).items():
        assert found.get(name, 0.0) == pytest.approx(wanted, rel=error, abs=error), name


def test_counted_cases_are_many() -> None:
    """Print how often each kind of window occurred."""
    print(dict(_CASES))  # noqa: T201
    assert not _CASES or any("began anew" in case for case in _CASES)


def test_a_sliding_window_forgets() -> None:
    """What left the window does not count, but for one part of it; a queue without use is forgotten."""
    ledger = UsageLedger(_settings(window=3200.0), 1)
    ledger.note(0.0, np.array([10.0]), {"a": [10.0]})
    ledger.note(1600.0, np.array([10.0]), {"b": [10.0]})
    assert ledger.usage(3200.0)["a"][0] == pytest.approx(0.5)
    part = 1 / PARTS
    assert ledger.usage(4000.0)["a"][0] == pytest.approx(0.25, abs=part)
    found = ledger.usage(4900.0)
    assert set(found) == {"b"}
    assert found["b"][0] == pytest.approx(1.0)


def test_a_pause_counts_nothing() -> None:
    """While another replica leads, neither use nor capacity is counted."""
    ledger = UsageLedger(_settings(), 1)
    ledger.note(0.0, np.array([10.0]), {"a": [5.0]})
    ledger.pause(100.0)
    ledger.note(900.0, np.array([10.0]), {})
    assert ledger.usage(1000.0)["a"][0] == pytest.approx(0.25)


# --- the ConfigMap


def _filled(queues: int) -> UsageLedger:
    rng, ledger = np.random.default_rng(1), UsageLedger(_settings(window=3200.0), 3)
    for now in range(0, 3200, 50):
        held = {f"queue-{number}": rng.uniform(0.0, 1e12, 3) for number in range(queues)}
        ledger.note(float(now), np.full(3, 1e15), held)
    ledger.advance(3200.0)
    return ledger


@pytest.mark.slow
def test_counts_survive_a_restart() -> None:
    """What was stored is counted as before, to the precision of 32 bits; a thousand queues have room."""
    ledger = _filled(1000)
    kept = stored(ledger, ("cpu", "memory", GPU), 0.0)
    assert len(json.dumps(kept)) < 2**20
    again = UsageLedger(_settings(window=3200.0), 3)
    load(again, kept["data"], kept["binaryData"], ("cpu", "memory", GPU), 0.0)  # type: ignore[arg-type]  # maps of texts
    before, after = ledger.usage(3200.0), again.usage(3200.0)
    assert before.keys() == after.keys()
    for name, part in before.items():
        np.testing.assert_allclose(after[name], part, rtol=1e-5)


@pytest.mark.slow
def test_parts_are_left_out_if_there_are_too_many_queues() -> None:
    """The newest parts are kept."""
    ledger = _filled(4000)
    kept = stored(ledger, ("cpu", "memory", GPU), 0.0)
    assert len(json.dumps(kept)) < 2**20
    header = json.loads(kept["data"]["usage.json"])  # type: ignore[index]  # a map of texts
    assert 0 < len(header["parts"]) < len(ledger.parts)
    assert header["parts"][-1][1] == ledger.parts[-1].end


@pytest.mark.parametrize(
    "damage",
    [
        {"data": {}},
        {"data": {"usage.json": "[]"}},
        {"data": {"usage.json": '{"halfLifeSeconds":0,"resources":[],"queues":[],"parts":[]}'}},
        {"binaryData": {"sums": "!"}},
        {"binaryData": {"sums": "AAAA"}},
        {"binaryData": {}},
        {"data": {"usage.json": "[" * 100_000}},
        {"data": {"usage.json": '{"halfLifeSeconds":1' + "0" * 400 + ',"resources":[],"queues":[],"parts":[]}'}},
    ],
)
def test_a_damaged_store_is_refused_with_a_reason(damage: dict[str, Any]) -> None:
    """It raises nothing but `ValueError`."""
    kept: Any = {**stored(_filled(3), ("cpu", "memory", GPU), 0.0), **damage}
    with pytest.raises(ValueError, match=r"[a-z]"):
        load(UsageLedger(_settings(), 3), kept["data"], kept["binaryData"], ("cpu", "memory", GPU), 0.0)


TIMES, SUMS = "their times are not those of the window", "their sums are not amounts of a cluster"


@pytest.mark.parametrize(
    ("times", "sums", "reason"),
    [
        pytest.param((3100.0, math.inf), {}, TIMES, id="infinite end"),
        pytest.param((3100.0, math.nan), {}, TIMES, id="no number as end"),
        pytest.param((-math.inf, 3200.0), {}, TIMES, id="infinite begin"),
        pytest.param((-100.0, 3200.0), {}, TIMES, id="negative begin"),
        pytest.param((3100.0, 3200.0 + 10 * 365 * 86400.0), {}, TIMES, id="ten years long"),
        pytest.param((3e8, 3e8 + 100.0), {}, TIMES, id="ten years ahead"),
        pytest.param((3200.0, 3100.0), {}, TIMES, id="end before begin"),
        pytest.param((3100.0, 3200.0), {0: 3e38}, SUMS, id="absurd capacity"),
        pytest.param((3100.0, 3200.0), {1: 3e38}, SUMS, id="absurd use"),
        pytest.param((3100.0, 3200.0), {1: -1.0}, SUMS, id="negative use"),
        pytest.param((3100.0, 3200.0), {0: -1.0}, SUMS, id="negative capacity"),
        pytest.param((3100.0, 3200.0), {1: math.inf}, SUMS, id="infinite use"),
        pytest.param((3100.0, 3200.0), {0: math.nan}, SUMS, id="no number as capacity"),
        pytest.param((3100.0, 3200.0), {0: 0.0}, SUMS, id="use without capacity"),
    ],
)
def test_saved_parts_that_cannot_be_are_left_out(
    times: tuple[float, float], sums: dict[int, float], reason: str
) -> None:
    """The other parts count, and the reason is returned."""
    ledger = _filled(1)
    ledger.parts.pop()
    wanted = {name: part.copy() for name, part in ledger.usage(3100.0).items()}
    broken = Part(*times, np.full(3, 1e17), np.full((1, 3), 1e15))
    for row, value in sums.items():
        if row:
            broken.queues[row - 1, 2] = value
        else:
            broken.capacity[2] = value
    ledger.parts.append(broken)
    with np.errstate(over="ignore"):
        kept: Any = stored(ledger, ("cpu", "memory", GPU), 0.0)
    again = UsageLedger(_settings(window=3200.0), 3)
    assert load(again, kept["data"], kept["binaryData"], ("cpu", "memory", GPU), 0.0, 3200.0) == {reason: 1}
    np.testing.assert_allclose(again.usage(3100.0)["queue-0"], wanted["queue-0"], rtol=1e-5)


# --- shares


def _two_queues(kai: Any) -> None:
    """Create queues of equal weight without a quota, on one node of 16 GPUs."""
    kai.nodes(1, cpu="64", **{GPU: "16"})
    for name in "ab":
        kai.queue(name, resources={"cpu": NO_QUOTA, "memory": NO_QUOTA, "gpu": NO_QUOTA})


def _job(kai: Any, name: str, queue: str) -> None:
    kai.group(name, queue, 1)
    kai.pods(name, 1, requests={"cpu": "1", GPU: "16"})


async def _holder(kai: Any) -> str:
    """Return whose job holds the node, after it began to run."""
    [pod] = [pod for pod in kai.cluster.pods() if pod.node_name]
    kai.go("Running", pod.name)
    await kai.pass_time(1.0)
    return str(pod.name)


async def _until_evicted(kai: Any, name: str, seconds: float = 3600.0) -> float:
    """Let time pass until a pod is evicted, and end it; return how long that took, infinity if it was not."""
    began = kai.cluster.clock.now()
    while kai.cluster.clock.now() < began + seconds:
        await kai.pass_time(10.0)
        if kai.cluster.pod(name).is_terminating:
            kai.cluster.delete_pod(name)
            await kai.pass_time(5.0)
            return float(kai.cluster.clock.now() - began)
    return math.inf


@pytest.mark.slow
async def test_a_queue_that_starved_reclaims_from_one_that_used_much(kai: Any) -> None:
    """KAI's example: two queues take turns with jobs that need the whole cluster."""
    _two_queues(kai)
    await kai.start(USAGE)
    _job(kai, "a0", "a")
    await kai.pass_time(5.0)
    holders = [await _holder(kai)]
    _job(kai, "b0", "b")
    for turn in range(1, 4):
        assert math.isfinite(await _until_evicted(kai, holders[-1]))
        holders.append(await _holder(kai))
        _job(kai, f"{holders[-2][0]}{turn}", holders[-2][0])
    assert [name[0] for name in holders] == ["a", "b", "a", "b"]


async def test_without_past_use_nobody_gives_way(kai: Any) -> None:
    """Each queue's share is half of the cluster, and its job needs all."""
    _two_queues(kai)
    await kai.start()
    _job(kai, "a0", "a")
    await kai.pass_time(5.0)
    assert await _holder(kai) == "a0-0"
    _job(kai, "b0", "b")
    assert await _until_evicted(kai, "a0-0") == math.inf


@pytest.mark.slow
async def test_past_use_is_kept_over_a_restart(kai: Any) -> None:
    """Another scheduler reads the ConfigMap before its first pass; then the shares are what they were."""
    _two_queues(kai)
    first = await kai.start(USAGE)
    _job(kai, "a0", "a")
    await kai.pass_time(5.0)
    await _holder(kai)
    await kai.pass_time(600.0)
    _job(kai, "b0", "b")
    await kai.pass_time(1.0)
    before = kai.values("kai_queue_fair_share_gpu", "a", "b")
    assert before["a"] < before["b"]
    await first.close()
    await kai.start(USAGE)
    await kai.pass_time(1.0)
    assert kai.values("kai_queue_fair_share_gpu", "a", "b") == pytest.approx(before, abs=1.0)


async def test_the_first_pass_waits_for_past_use(kai: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Jobs that wait at the start are placed by the shares of the history, however late it is read; none is evicted."""
    _two_queues(kai)
    ledger, now = UsageLedger(_settings(half_life=600.0), 3), kai.cluster.clock.wall()
    ledger.note(now - 500.0, np.array([64.0, 2.0**36, 16.0]), {"a": [16.0, 2.0**30, 16.0], "b": [0.0, 0.0, 0.0]})
    ledger.advance(now)
    ledger.parts.append(Part(now + 3e8, now + 3e8 + 1, np.ones(3), np.ones((2, 3))))
    manifest = {"apiVersion": "v1", "kind": "ConfigMap"}
    metadata = {"name": "pyscheduler-usage", "namespace": "kube-system"}
    kai.cluster.add({**manifest, "metadata": metadata, **stored(ledger, ("cpu", "memory", GPU), 600.0)}, ConfigMap)
    kai.cluster.server.faults.add(Fault(path="/configmaps/pyscheduler-usage", delay_seconds=3.0))
    for queue in "ab":
        for number in range(16):
            kai.group(f"{queue}{number}", queue, 1)
            kai.pods(f"{queue}{number}", 1, requests={GPU: "1"})
    with caplog.at_level(logging.INFO):
        scheduler = await kai.start(USAGE)
        await kai.pass_time(2.0)
        assert not [pod for pod in kai.cluster.pods() if pod.node_name]
        await kai.pass_time(60.0)
    placed = Counter(pod.name[0] for pod in kai.cluster.pods() if pod.node_name)
    share = scheduler.metric("kai_queue_fair_share_gpu", queue_name="a")
    assert share < 4
    assert placed == Counter(a=round(share), b=16 - round(share))
    lines = [line for line in caplog.messages if "past use" in line or "Saved use" in line]
    assert lines == [
        "Passes wait for the past use of queues atMostSeconds=60",
        f"Saved use of queues is left out: {TIMES} configMap=kube-system/pyscheduler-usage parts=1",
    ]


async def test_a_damaged_config_map_is_replaced(kai: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Counting begins anew, with a warning that names the ConfigMap."""
    _two_queues(kai)
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "pyscheduler-usage", "namespace": "kube-system"},
        "data": {"usage.json": "{"},
    }
    kai.cluster.add(manifest, ConfigMap)
    with caplog.at_level(logging.WARNING):
        await kai.start(USAGE)
        _job(kai, "a0", "a")
        await kai.pass_time(70.0)
    assert any("kube-system/pyscheduler-usage cannot be used" in line for line in caplog.messages)
    assert await _holder(kai) == "a0-0"
    await kai.pass_time(70.0)
    [kept] = [each for each in kai.cluster.objects(ConfigMap) if each.name == "pyscheduler-usage"]
    assert json.loads(kept.data["usage.json"])["queues"] == ["a"]


async def test_a_server_without_the_permission_costs_the_counts_only(kai: Any) -> None:
    """The first pass waits for a minute at most; then jobs run, and failures are counted."""
    _two_queues(kai)
    refusal = Fault(path="/api/v1/namespaces/kube-system/configmaps/.*", status=403)
    kai.cluster.server.faults._faults.insert(0, refusal)
    scheduler = await kai.start(USAGE)
    _job(kai, "a0", "a")
    await kai.pass_time(30.0)
    assert kai.nodes_of("a0") == [""]
    await kai.pass_time(31.0)
    assert kai.nodes_of("a0") == ["n0"]
    assert scheduler.warnings["queue_usage"] > 0


# --- Prometheus


class FakePrometheus:
    """A server with the part of the API of Prometheus that is used, and answers by the begin of the query."""

    def __init__(self) -> None:
        self.queries: list[str] = []
        self.status = 200
        self.body: bytes | None = None
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        """Answer a query: capacity 100 of each resource; queue a used half, queue b a tenth."""
        query = request.query["query"]
        self.queries.append(query)
        if self.body is not None or self.status != 200:
            return web.Response(status=self.status, body=self.body or b"no")
        samples = [({}, "100")]
        if "kai_queue_allocated" in query:
            samples = [({"queue_name": "a"}, "50"), ({"queue_name": "b"}, "10"), ({"queue_name": "c"}, "NaN")]
        if "nvidia" in query:
            samples = []
        result = [{"metric": labels, "value": [1.0, value]} for labels, value in samples]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})


@pytest.fixture
async def prometheus() -> AsyncIterator[FakePrometheus]:
    """Serve a fake Prometheus over HTTP."""
    fake = FakePrometheus()
    app = web.Application()
    app.router.add_get("/prom/api/v1/query", fake.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    fake.url = f"http://{host}:{port}/prom"
    yield fake
    await runner.cleanup()


def _source(url: str, **fields: Any) -> PrometheusUsage:
    return PrometheusUsage(UsageSettings(source="prometheus", connection=url, **fields))


async def test_prometheus_is_asked_with_the_queries_of_kai(prometheus: FakePrometheus) -> None:
    """Use is divided by capacity; a resource that the cluster lacks counts nothing."""
    found = await _source(f"{prometheus.url}/", half_life=600.0).fetch(1_000_000.0)
    assert found == {queue: {"cpu": part, "memory": part} for queue, part in (("a", 0.5), ("b", 0.1))}
    decay = "(0.5^((1000000 - time()) / 600.000000))"
    assert prometheus.queries[1] == f"sum_over_time((((kai_queue_allocated_cpu_cores) * {decay}))[604800s:1m0s])"


def test_a_tumbling_window_is_asked_from_its_begin() -> None:
    """The range of the query ends with the window that began last."""
    source = _source("http://x", window=3600.0, window_type="tumbling", window_start=1000.0)
    assert source.query("m", 1000.0 + 3600.0 + 90.0) == "sum_over_time((m)[90s:1m0s])"
    assert source.query("m", 1000.0 + 3600.0) == ""


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (503, None, "503 for the query"),
        (200, b"<html>", "unreadable answer"),
        (200, b'{"status":"success","data":{"resultType":"matrix","result":[]}}', "expected a vector"),
        (200, b'{"status":"success","data":{"resultType":"vector","result":[]}}', "no data for the capacity"),
    ],
)
async def test_bad_answers_of_prometheus_are_one_error(
    prometheus: FakePrometheus, status: int, body: bytes | None, message: str
) -> None:
    """The error says what was asked, or what is missing."""
    prometheus.status, prometheus.body = status, body
    with pytest.raises(PrometheusError, match=message):
        await _source(prometheus.url).fetch(1_000_000.0)


async def test_a_prometheus_that_is_away_is_one_error() -> None:
    """Nobody listens there."""
    with pytest.raises(PrometheusError, match="Connect"):
        await _source("http://127.0.0.1:9").fetch(1_000_000.0)


async def test_use_by_prometheus_lowers_shares(kai: Any, prometheus: FakePrometheus) -> None:
    """The plugin takes in what Prometheus says, without a permission for ConfigMaps."""
    _two_queues(kai)
    usage = f"usageDBConfig: {{clientType: prometheus, connectionString: '{prometheus.url}'}}"
    scheduler = await kai.start(usage)
    plugin = sessions_of(scheduler.scheduler)[0].plugin
    assert not any("configmaps" in rule.resources for rule in plugin.rbac)
    for queue in "ab":
        kai.group(queue, queue, 1)
        kai.pods(queue, 1, requests={"cpu": "64"})
    await kai.pass_time(1.0)
    async with asyncio.timeout(60.0):
        while plugin.is_reading:  # noqa: ASYNC110 - the HTTP request takes real time
            await asyncio.sleep(0.01)
    await kai.pass_time(5.0)
    shares = kai.values("kai_queue_fair_share_cpu_cores", "a", "b")
    # KAI divides by weight + kValue x (weight - use): 0.5 + 0.5 - 0.5 for a, 0.5 + 0.5 - 0.1 for b.
    assert shares == pytest.approx({"a": 64.0 * 5 / 14, "b": 64.0 * 9 / 14}, abs=0.01)


def test_other_presets_have_no_permission_for_it() -> None:
    """The rules for the ConfigMap are those of the scheduler's own counts only."""
    assert usage_rules(None) == ()
    [written, created] = usage_rules(_settings())
    assert (written.resource_names, written.namespaces, created.verbs) == (("use",), ("kube-system",), ("create",))
