"""ExternalPolicy: answers are shared and kept, failures end in the configured way, and the loop never waits."""

import asyncio
import json

import pytest
from aiohttp import web

from external_policy.plugin import ExternalPolicy
from pyscheduler import ConfigError, CycleState, Pod
from pyscheduler.framework import Trial
from pyscheduler.testing import CHECKS, check_plugin, make_pod

URL = "http://policy.example.com/v1/pods"
REQUESTS, SECONDS = "external_policy_requests_total", "external_policy_request_duration_seconds"


class Asked(ExternalPolicy):
    """The plugin with a service in this process: `answers` by namespace; an exception is raised, None never comes."""

    def __init__(self, args, handle):
        super().__init__(args, handle)
        self.answers: dict[str, object] = {}
        self.asked: list[str] = []
        self.delay = 0.5

    async def ask(self, question):
        self.asked.append(question)
        await self.handle.clock.sleep(self.delay)
        answer = self.answers.get(json.loads(question)["namespace"], (True, ""))
        if answer is None:
            await asyncio.get_running_loop().create_future()
        if isinstance(answer, Exception):
            raise answer
        return answer


def start(cluster, **args):
    """Return a framework with the plugin, and the plugin."""
    cluster.add_node("n1")
    args = {"url": URL, **args}
    framework = cluster.framework(enable=[Asked], args={"Asked": args})
    return framework, framework.plugin("Asked")


async def test_a_pod_waits_for_the_answer_and_no_other_pod_does(pyscheduler_cluster):
    """While a request is under way, pods with a known answer are scheduled."""
    framework, plugin = start(pyscheduler_cluster)
    assert (await framework.schedule("a")).state == "gated"
    await pyscheduler_cluster.clock.advance(1)
    assert framework.result("a").bound

    plugin.delay = 1.5
    assert (await framework.schedule("b", images=["other"])).state == "gated"
    assert (await framework.schedule("c")).bound
    await pyscheduler_cluster.clock.advance(2)
    assert framework.result("b").bound


async def test_equal_pods_share_one_request(pyscheduler_cluster):
    framework, plugin = start(pyscheduler_cluster, labels=["team"])
    for number in range(5):
        await framework.schedule(f"p{number}", labels={"team": "a", "index": str(number)})
    await framework.schedule("q", labels={"team": "b"})
    await pyscheduler_cluster.clock.advance(1)
    assert {framework.result(name).state for name in ("p0", "p4", "q")} == {"bound"}
    assert len(plugin.asked) == 2
    assert json.loads(plugin.asked[0])["labels"] == {"team": "a"}
    assert framework.metric(REQUESTS, result="allowed") == 2
    assert framework.metric(f"{SECONDS}_sum") == 1.0


async def test_a_denied_pod_says_why_and_is_asked_about_again(pyscheduler_cluster):
    framework, plugin = start(pyscheduler_cluster, cacheTtl="5m")
    plugin.answers["default"] = (False, "over budget")
    await framework.schedule("p")
    await pyscheduler_cluster.clock.advance(1)
    assert "the policy service denied the pod: over budget" in framework.result("p").message

    plugin.answers.clear()
    await pyscheduler_cluster.clock.advance(298)
    assert not framework.result("p").bound
    assert len(plugin.asked) == 1
    await pyscheduler_cluster.clock.advance(4)
    assert framework.result("p").bound
    assert framework.metric(REQUESTS, result="denied") == framework.metric(REQUESTS, result="allowed") == 1


@pytest.mark.parametrize(("on_failure", "state"), [("Allow", "bound"), ("Deny", "pending")])
@pytest.mark.parametrize(
    ("answer", "result", "reason"),
    [
        pytest.param(None, "timeout", "no answer in time", id="timeout"),
        pytest.param(OSError("connection refused"), "error", "connection refused", id="error"),
    ],
)
async def test_failures_end_as_configured(pyscheduler_cluster, on_failure, state, answer, result, reason):
    """A failure holds for `failureTtl`; then the service is asked again."""
    framework, plugin = start(pyscheduler_cluster, onFailure=on_failure, timeout="2s", failureTtl="10s")
    plugin.answers["default"] = answer
    await framework.schedule("p")
    await pyscheduler_cluster.clock.advance(3)
    assert framework.result("p").state == state
    assert framework.metric(REQUESTS, result=result) == 1
    if state == "pending":
        assert reason in framework.result("p").message
        plugin.answers.clear()
        await pyscheduler_cluster.clock.advance(15)
        assert framework.result("p").bound


async def test_the_cache_is_bounded(pyscheduler_cluster):
    framework, plugin = start(pyscheduler_cluster, cacheSize=2)
    for number in range(4):
        await framework.schedule(f"p{number}", images=[f"image{number}"])
        await pyscheduler_cluster.clock.advance(1)
    assert framework.result("p3").bound
    assert len(plugin.verdicts) == 2
    assert plugin.waiting == {}


async def test_a_pod_that_changes_is_asked_about_again(pyscheduler_cluster):
    framework, plugin = start(pyscheduler_cluster, labels=["team"], cacheTtl="1h")
    plugin.answers["default"] = (False, "no team")
    await framework.schedule("p")
    await pyscheduler_cluster.clock.advance(1)
    plugin.answers.clear()
    pyscheduler_cluster.patch(Pod, "p", {"metadata": {"labels": {"team": "a"}}})
    await pyscheduler_cluster.clock.advance(20)
    assert framework.result("p").bound


async def test_a_trial_asks_nobody(pyscheduler_cluster):
    framework, plugin = start(pyscheduler_cluster)
    await framework.start()
    state = CycleState(Trial())
    assert plugin.pre_filter(state, make_pod("p"), framework.nodes()).is_rejected
    await pyscheduler_cluster.clock.advance(1)
    assert plugin.asked == []


async def test_a_pod_deleted_meanwhile_and_a_stop_leave_nothing(pyscheduler_cluster):
    framework, plugin = start(pyscheduler_cluster)
    await framework.schedule("p")
    pyscheduler_cluster.delete_pod("p")
    await pyscheduler_cluster.clock.advance(1)
    await framework.schedule("q", images=["other"])
    await framework.close()
    assert plugin.waiting == {}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param({"allowed": True}, (True, "no reason given"), id="allowed"),
        pytest.param({"allowed": False, "reason": "no"}, (False, "no"), id="denied"),
        pytest.param({"allow": True}, TypeError, id="another form"),
        pytest.param(None, Exception, id="status 500"),
    ],
)
async def test_the_request_over_http(pyscheduler_cluster, answer, expected):
    """A real service on a real socket; the question arrives as JSON."""
    got = []

    async def serve(request):
        got.append(await request.json())
        return web.json_response(answer) if answer is not None else web.Response(status=500)

    app = web.Application()
    app.router.add_post("/v1/pods", serve)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    args = {"ExternalPolicy": {"url": f"http://127.0.0.1:{port}/v1/pods"}}
    plugin = pyscheduler_cluster.framework(enable=[ExternalPolicy], args=args).plugin("ExternalPolicy")
    try:
        question = plugin.question(make_pod("p", requests={"cpu": "1"}))
        if isinstance(expected, tuple):
            assert await plugin.ask(question) == expected
        else:
            with pytest.raises(expected):
                await plugin.ask(question)
        assert got[0]["namespace"] == "default"
        assert got[0]["requests"] == {"cpu": 1000}
    finally:
        await plugin.close()
        await runner.cleanup()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        pytest.param({}, r"Required.*args\.url", id="no url"),
        pytest.param({"url": "policy:80"}, "url must begin with", id="url"),
        pytest.param({"url": URL, "onFailure": "Open"}, 'onFailure must be "Allow" or "Deny"', id="failure"),
        pytest.param({"url": URL, "timeout": 2}, r"duration.*args\.timeout", id="timeout"),
    ],
)
def test_args_are_checked(pyscheduler_cluster, args, message):
    with pytest.raises(ConfigError, match=message):
        pyscheduler_cluster.framework(enable=[ExternalPolicy], args={"ExternalPolicy": args})


class Quick(Asked):
    """A service that denies some pods."""

    async def ask(self, question):
        await self.handle.clock.sleep(0.5)
        return '"app": "db"' not in question, "no databases"


def test_the_contract_of_plugins():
    """All checks but one: what the service has said does not follow from the cluster, so a new scheduler asks again."""
    args = {"url": URL, "labels": ["app", "tier"], "cacheTtl": "20s"}
    check_plugin(Quick, args, checks=[check for check in CHECKS if check != "earlier-pods"])
