"""What can become of a watch, and that the copy equals the API afterwards."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from kube_testserver.virtual_time import settle
from pyscheduler.cluster.real.informer import RealInformer
from pyscheduler.framework.errors import TransportError


def error_line(code: int, reason: str = "", retry_after: int = 0) -> bytes:
    """Return a line by which a server ends a watch."""
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "code": code,
        "reason": reason,
        "message": "no more",
    }
    if retry_after:
        status["details"] = {"retryAfterSeconds": retry_after}
    return msgspec.json.encode({"type": "ERROR", "object": status}) + b"\n"


async def forever() -> None:
    """Wait; part of a scripted stream that stays open."""
    await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("how", ["end", "cut"])
async def test_dropped_watch_is_taken_up_where_it_stopped(stage: Any, how: str) -> None:
    """Ended or cut, the next watch goes on from the last version: nothing is listed again, nothing is lost."""
    stage.add_pods("a", "b")
    pods, ledger = await stage.started()
    stage.drop_watches(how)
    stage.change_pod("a", colour="red")
    stage.remove_pod("b")
    stage.add_pod("c")
    await stage.clock.advance(5)
    assert ledger.take() == ["add a", "add b", "update a", "delete b", "add c"]
    assert stage.warnings["relisted"] == 0
    assert stage.warnings["watch_broken"] == (0 if how == "end" else 1)
    stage.assert_equal(pods, ledger)


async def test_watch_cut_within_a_line(stage: Any) -> None:
    """Half an event is no event; it comes again in full on the next watch."""
    pods, ledger = await stage.started()
    stage.drop_watches("within")
    stage.add_pods("a", "b")
    await stage.clock.advance(5)
    assert ledger.take() == ["add a", "add b"]
    assert stage.warnings["watch_broken"] == 1
    stage.assert_equal(pods, ledger)


async def test_stream_that_ends_in_half_a_line_without_an_error(stage: Any, meddled: Any) -> None:
    """Over a connection without lengths a cut looks like an end; the half line gives it away."""
    halves: list[bytes] = []

    def halve_once(line: bytes) -> Iterable[bytes]:
        if not halves and b'"name":"a"' in line:
            halves.append(line)
            stage.drop_watches()
            return [line[:40]]
        return [line]

    meddled(stage, halve_once)
    pods, ledger = await stage.started()
    stage.add_pod("a")
    await stage.clock.advance(5)
    assert halves
    assert ledger.take() == ["add a"]
    assert stage.warnings["watch_broken"] == 1
    stage.assert_equal(pods, ledger)


@pytest.mark.parametrize("size", [1, 7, 100, 5000])
async def test_lines_may_be_cut_anywhere(stage: Any, meddled: Any, size: int) -> None:
    """Chunks are not lines: one event may come in many, and one chunk may end within the next event."""
    meddled(stage, lambda line: [line[start : start + size] for start in range(0, len(line), size)])
    pods, ledger = await stage.started()
    stage.add_pod("big", annotations={"note": "x" * 20_000})
    stage.add_pod("small")
    await settle()
    assert ledger.take() == ["add big", "add small"]
    stage.assert_equal(pods, ledger)


async def test_line_without_end_is_not_listened_to_for_ever(stage: Any, script: Any) -> None:
    """Who sends bytes and no lines is no API server, and is not given all the memory there is; an event may be long."""
    listing = b'{"kind":"PodList","metadata":{"resourceVersion":"5"},"items":[]}'
    event = b'{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"6","uid":"1"}}}'
    piece = b" " * (1 << 20)
    long = [event, *[piece] * 15, b"\n"]
    streams = [[*long, *long, *[piece] * 16, b" ", forever], [forever]]
    stage.client = stage.connect(script(listing, listing, streams=streams))
    _, ledger = await stage.started()
    await stage.clock.advance(5)
    assert (ledger.take(), stage.warnings["watch_broken"]) == (["add a"], 1)
    assert stage.client._transport.streams == []


async def test_watches_that_end_at_once_are_spaced(warnings: Any, stage: Any, script: Any) -> None:
    """A server that ends every watch as soon as it is open is not asked in a tight loop."""
    listing = b'{"kind":"PodList","metadata":{"resourceVersion":"5"},"items":[]}'
    stage.client = stage.connect(script(*[listing] * 100, streams=[[] for _ in range(100)]))
    await stage.started()
    transport = stage.client._transport
    await stage.clock.advance(60)
    watches = [asked for asked in transport.asked if asked[0] == "WATCH"]
    assert 3 < len(watches) < 15
    assert stage.warnings["watch_broken"] == 0


async def test_regular_end_is_followed_by_a_watch_at_once(stage: Any, meddled: Any) -> None:
    """A watch whose time was up is no failure: the next one is opened without a pause."""
    meddler = meddled(stage, lambda line: [line])
    pods, ledger = await stage.started()
    began = stage.clock.now()
    await stage.clock.advance(3600)
    assert 6 <= len(meddler.watches) <= 12
    lasted = [int(query["timeoutSeconds"]) for query in meddler.watches]
    assert all(300 <= seconds <= 600 for seconds in lasted)
    assert meddler.opened == [began + sum(lasted[:number]) for number in range(len(lasted))]
    assert sum(stage.warnings.counts.values()) == 0
    stage.assert_equal(pods, ledger)


async def test_bookmarks_keep_the_version_fresh(stage: Any) -> None:
    """Nothing happens to pods while much happens elsewhere; thanks to bookmarks the old versions are not missed."""
    stage.add_pod("a")
    pods, ledger = await stage.started()
    for number in range(50):
        stage.add_node(f"n{number}")
    await stage.clock.advance(90)
    stage.cluster.store.compact()
    stage.drop_watches("cut")
    stage.add_pod("b")
    await stage.clock.advance(5)
    assert stage.warnings["relisted"] == 0
    assert ledger.take() == ["add a", "add b"]
    stage.assert_equal(pods, ledger)


async def test_silent_stream_is_given_up(stage: Any, meddled: Any) -> None:
    """A stream that brings nothing at all, not even a bookmark, is dead, whatever the transport thinks of it."""
    deaf = True
    meddler = meddled(stage, lambda line: [] if deaf else [line])
    pods, ledger = await stage.started()
    stage.add_pod("a")
    await stage.clock.advance(170)
    assert ledger.take() == []
    deaf = False
    await stage.clock.advance(15)
    assert ledger.take() == ["add a"]
    assert len(meddler.watches) == 2
    stage.assert_equal(pods, ledger)


async def test_silence_again_and_again_is_about_the_version(stage: Any, meddled: Any) -> None:
    """A server from a backup has no news of a version to come, nor bookmarks: only a list tells where it is."""
    meddled(stage, lambda line: [])
    pods, ledger = await stage.started()
    stage.add_pod("a")
    await stage.clock.advance(190)
    assert ledger.take() == []
    await stage.clock.advance(190)
    assert ledger.take() == ["add a"]
    stage.assert_equal(pods, ledger)


async def test_server_that_comes_back_from_a_backup_in_good_order(stage: Any, script: Any) -> None:
    """It ends its watches before their time, and knows less afterwards: it is asked, not listened to in vain."""
    before = b'{"kind":"PodList","metadata":{"resourceVersion":"50"},"items":[{"metadata":{"name":"a","uid":"1"}}]}'
    after = b'{"kind":"PodList","metadata":{"resourceVersion":"3"},"items":[]}'
    behind = (504, b'{"kind":"Status","code":504,"message":"Timeout: Too large resource version: 50, current: 3"}')
    stage.client = stage.connect(script(before, behind, after, streams=[[], [forever]]))
    _, ledger = await stage.started()
    await stage.clock.advance(3)
    assert [asked[0] for asked in stage.client._transport.asked] == ["GET", "WATCH", "GET", "GET", "WATCH"]
    assert ledger.take() == ["add a", "delete a"]


async def test_quiet_is_no_failure(stage: Any, meddled: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Where nothing happens, and etcd seldom says how far it is, there are no bookmarks: nobody is alarmed by that."""
    caplog.set_level(logging.INFO)
    meddler = meddled(stage, lambda line: [] if b"BOOKMARK" in line else [line])
    stage.add_pod("a")
    pods, ledger = await stage.started()
    caplog.clear()
    await stage.clock.advance(3600)
    assert len(meddler.watches) >= 10
    assert (ledger.take(), dict(stage.warnings.counts), caplog.messages) == (["add a"], {}, [])
    stage.assert_equal(pods, ledger)


async def test_watch_that_does_not_begin_is_given_up(stage: Any) -> None:
    """Silence counts from the question, not from the first answer."""
    hole = stage.fault(path="/pods$", delay_seconds=100_000.0, times=0)
    pods, ledger = await stage.started()
    hole.times = 1
    await stage.clock.advance(600)  # the first watch's time is up by then
    assert hole.hits == 1
    stage.add_pod("a")
    await stage.clock.advance(190)
    assert ledger.take() == ["add a"]
    assert stage.warnings["watch_broken"] == 1
    stage.assert_equal(pods, ledger)


async def test_slow_but_living_stream_is_kept(stage: Any, meddled: Any) -> None:
    """An event every two minutes is a sign of life, even without bookmarks."""
    meddler = meddled(stage, lambda line: [] if b"BOOKMARK" in line else [line])
    _, ledger = await stage.started()
    for number in range(4):
        await stage.clock.advance(70)
        stage.add_pod(f"p{number}")
        await settle()
    assert len(ledger.take()) == 4
    assert len(meddler.watches) == 1


class TestRelist:
    """The stream cannot be continued: everything is listed, the difference is told."""

    @pytest.fixture
    async def changed(self, stage: Any) -> tuple[Any, RealInformer[Any], Any]:
        """Let much happen while nobody watches, and let the server forget it."""
        stage.add_pods("stays", "changes", "goes", "reborn")
        pods, ledger = await stage.started()
        ledger.take()
        stage.drop_watches("cut")
        stage.change_pod("changes", colour="red")
        stage.remove_pod("goes")
        stage.remove_pod("reborn")
        stage.add_pods("reborn", "comes")
        return stage, pods, ledger

    async def test_version_is_gone(self, changed: Any, caplog: pytest.LogCaptureFixture) -> None:
        """410 on the watch: each change is told exactly once, also that an object was replaced by a namesake."""
        stage, pods, ledger = changed
        caplog.set_level(logging.INFO)
        stage.cluster.store.compact()
        await stage.clock.advance(10)
        assert sorted(ledger.take()) == ["add comes", "add reborn", "delete goes", "delete reborn", "update changes"]
        assert stage.warnings["relisted"] == 1
        assert any(line.startswith("Listing again resource=pods reason=") for line in caplog.messages)
        stage.assert_equal(pods, ledger)

    async def test_version_is_gone_as_an_http_status(self, changed: Any) -> None:
        """Servers may say 410 before the stream begins, too."""
        stage, pods, ledger = changed
        stage.fault(path="/pods$", status=410, times=1)
        await stage.clock.advance(10)
        assert len(ledger.take()) == 5
        assert stage.warnings["relisted"] == 1
        stage.assert_equal(pods, ledger)

    async def test_server_came_back_with_other_versions(self, changed: Any) -> None:
        """Restored from a backup, a server knows less than its clients; what they know is corrected."""
        stage, pods, ledger = changed
        for name in ("comes", "stays"):
            stage.remove_pod(name)
        stage.cluster.store.version = 1
        for collection in stage.cluster.store._collections.values():
            collection._log.clear()
            collection.trimmed = 0
        stage.change_pod("changes", colour="of old")
        stage.change_pod("reborn", colour="of old")
        await stage.clock.advance(10)
        assert sorted((pod.name, pod.labels["colour"]) for pod in pods) == [("changes", "of old"), ("reborn", "of old")]
        stage.assert_equal(pods, ledger)


@pytest.mark.parametrize(
    ("line", "warning"),
    [
        pytest.param(error_line(410, "Expired"), "relisted", id="410"),
        pytest.param(error_line(400, "BadRequest"), "watch_refused", id="400"),
        pytest.param(error_line(504, "Timeout"), "watch_refused", id="version-too-large"),
        pytest.param(error_line(500, "InternalError"), "watch_refused", id="500"),
        pytest.param(error_line(429, "TooManyRequests", 3), "watch_refused", id="429"),
        pytest.param(b"<html>Bad Gateway</html>\n", "relisted", id="no-event"),
        pytest.param(b'{"type":"ADDED","object":{"spec":{"priority":"x"}}}\n', "relisted", id="no-name"),
    ],
)
async def test_line_that_ends_a_watch(stage: Any, meddled: Any, line: bytes, warning: str) -> None:
    """Whatever a server says instead of an event, the copy is right soon after."""
    said: list[bytes] = []

    def replace_first(event: bytes) -> Iterable[bytes]:
        if said:
            return [event]
        said.append(event)
        return [line]

    meddled(stage, replace_first)
    stage.add_pod("a")
    pods, ledger = await stage.started()
    stage.add_pod("b")
    await stage.clock.advance(10)
    assert said
    assert ledger.take() == ["add a", "add b"]
    assert stage.warnings[warning] == 1
    stage.assert_equal(pods, ledger)


@pytest.mark.parametrize("code", [401, 403, 500, 502, 503])
async def test_event_that_the_server_cannot_get_past(stage: Any, script: Any, code: int) -> None:
    """A watch that ends with an error would end so for ever, asked from the same version: a list gets past it."""
    listings = [b'{"kind":"PodList","metadata":{"resourceVersion":"%d"},"items":[]}' % version for version in (5, 8)]
    stage.client = stage.connect(script(*listings, streams=[[error_line(code)], [forever]]))
    await stage.started()
    await stage.clock.advance(1)
    asked = [(what, query.get("resourceVersion")) for what, _, query, _ in stage.client._transport.asked]
    assert asked == [("GET", None), ("WATCH", "5"), ("GET", None), ("WATCH", "8")]


@pytest.mark.parametrize(
    "broken", [[b'{"type":"ADDED","obj'], [], [TransportError("cut off")]], ids=["half an event", "nothing", "cut off"]
)
async def test_watches_that_break_at_the_same_place(stage: Any, script: Any, broken: list[Any]) -> None:
    """A proxy that cannot carry some event would never let anything pass again: after five watches it is listed."""
    listing = b'{"kind":"PodList","metadata":{"resourceVersion":"5"},"items":[]}'
    stage.client = stage.connect(script(*[listing] * 20, streams=[*[broken] * 5, [forever]]))
    await stage.started()
    await stage.clock.advance(20)
    asked = [(what, query.get("resourceVersion")) for what, _, query, _ in stage.client._transport.asked]
    assert asked == [("GET", None), ("WATCH", "5"), *[("GET", "5"), ("WATCH", "5")] * 4, ("GET", None), ("WATCH", "5")]
    assert stage.warnings["relisted"] == 1


async def test_retry_after_in_a_watch_is_honoured(stage: Any, meddled: Any) -> None:
    """A server that asks for a pause in the stream gets it."""
    meddler = meddled(stage, lambda line: [error_line(429, "TooManyRequests", 20)])
    await stage.started()
    stage.add_pod("a")
    await stage.clock.advance(19)
    assert len(meddler.watches) == 1
    await stage.clock.advance(2)
    assert len(meddler.watches) == 2


async def test_versions_that_run_backwards(stage: Any, meddled: Any) -> None:
    """An event older than its predecessor: the stream is not to be trusted, a list is."""
    lines: list[bytes] = []

    def replay_first(line: bytes) -> Iterable[bytes]:
        lines.append(line)
        return [line, lines[0]] if len(lines) == 3 else [line]

    meddled(stage, replay_first)
    pods, ledger = await stage.started()
    stage.add_pods("a", "b")
    stage.change_pod("a", colour="red")
    await stage.clock.advance(5)
    assert ledger.take() == ["add a", "add b", "update a"]
    assert stage.warnings["relisted"] == 1
    stage.assert_equal(pods, ledger)


async def test_versions_that_are_no_numbers_are_not_compared(stage: Any, script: Any) -> None:
    """The API calls versions opaque; where they are, order is not looked for in them."""

    def event(kind: str, name: str, version: str) -> bytes:
        metadata = {"name": name, "namespace": "x", "uid": name, "resourceVersion": version}
        return msgspec.json.encode({"type": kind, "object": {"metadata": metadata}}) + b"\n"

    listing = b'{"kind":"PodList","metadata":{"resourceVersion":"zz"},"items":[]}'
    lines = [event("ADDED", "a", "zz-9"), event("MODIFIED", "a", "zz-10"), event("MODIFIED", "a", "aa")]
    stage.client = stage.connect(script(listing, streams=[[*lines, forever]]))
    pods, ledger = await stage.started()
    assert ledger.take() == ["add a", "update a", "update a"]
    assert pods.get("a", "x").resource_version == "aa"


@pytest.mark.parametrize("kind", ["MODIFIED", "DELETED"])
async def test_change_that_was_never_announced(stage: Any, meddled: Any, kind: str) -> None:
    """A stream that leaves events out is found out by what follows from them."""
    meddled(stage, lambda line: [] if b'"type":"ADDED"' in line else [line])
    pods, ledger = await stage.started()
    stage.add_pods("a", "b")
    await settle()
    assert ledger.take() == []
    if kind == "MODIFIED":
        stage.change_pod("a", colour="red")
    else:
        stage.remove_pod("a")
    await stage.clock.advance(5)
    assert ledger.take() == (["add a", "add b"] if kind == "MODIFIED" else ["add b"])
    assert stage.warnings["relisted"] == 1
    stage.assert_equal(pods, ledger)


async def test_refused_again_and_again_a_watch_becomes_a_list(stage: Any) -> None:
    """500 says nothing about the version that was asked for; five in a row make even that doubtful."""
    stage.add_pod("a")
    pods, ledger = await stage.started()
    fault = stage.fault(path="/pods$", status=500)
    stage.drop_watches("cut")
    asked: list[str] = []
    respond = stage.cluster.router.handle

    async def note(request: Any) -> Any:
        # After a broken connection the version is asked about before it is watched from.
        asked.append("watch" if request.query.get("watch") or request.query.get("limit") == "1" else "list")
        return await respond(request)

    stage.cluster.router.handle = note
    await stage.clock.advance(30)
    assert asked[:4] == ["watch"] * 4
    assert "list" in asked
    fault.times = fault.hits
    await stage.clock.advance(60)
    stage.assert_equal(pods, ledger)
    assert ledger.take() == ["add a"]


async def test_fault_of_our_own_is_survived(stage: Any, script: Any, caplog: pytest.LogCaptureFixture) -> None:
    """An exception nobody thought of is logged in full, counted, and followed by a list."""
    listing = b'{"kind":"PodList","metadata":{"resourceVersion":"5"},"items":[]}'
    broken = [ZeroDivisionError("never mind")]
    stage.client = stage.connect(script(listing, listing, streams=[broken, [forever]]))
    await stage.started()
    await stage.clock.advance(1)
    assert stage.warnings["informer_failed"] == 1
    assert "never mind" in caplog.text
    assert [asked[0] for asked in stage.client._transport.asked[:4]] == ["GET", "WATCH", "GET", "WATCH"]


async def test_optional_kind_comes_and_goes(stage: Any, gadgets: Any) -> None:
    """A CRD that is absent is no failure; its objects appear with it and go with it, as often as it likes."""
    informer = stage.informer(gadgets.KIND, optional=True)
    informer.start()
    await settle()
    await informer.wait_synced()
    assert not informer.synced
    assert len(informer) == 0
    heard: list[str] = []
    informer.add_event_handler(
        on_add=lambda item: heard.append(f"add {item.name}"), on_delete=lambda item: heard.append(f"delete {item.name}")
    )
    for round_ in range(2):
        gadgets.install(stage)
        gadgets.add(stage, f"g{round_}", size=3)
        await stage.clock.advance(20)
        assert informer.synced
        assert [(item.name, item.spec["size"]) for item in informer] == [(f"g{round_}", 3)]
        gadgets.uninstall(stage)
        await settle()
        stage.drop_watches()
        await stage.clock.advance(20)
        assert not informer.synced
        assert heard == [f"add g{round_}", f"delete g{round_}"]
        heard.clear()
    assert sum(stage.warnings.counts.values()) == 0


async def test_a_copy_is_synced_until_the_deletions_are_delivered(stage: Any, gadgets: Any) -> None:
    """When a kind is no longer served, handlers of its deletions still see a synced copy."""
    informer = stage.informer(gadgets.KIND, optional=True)
    gadgets.install(stage)
    gadgets.add(stage, "g", size=3)
    informer.start()
    await stage.clock.advance(1)
    seen: list[bool] = []
    informer.add_event_handler(on_delete=lambda _: seen.append(informer.synced))
    stage.fault(path="/gadgets$", status=404)
    stage.drop_watches()
    await stage.clock.advance(20)
    assert (seen, informer.synced) == ([True], False)


async def test_not_found_does_not_empty_an_indispensable_copy(stage: Any) -> None:
    """A server that suddenly serves no pods is more likely broken than right; what is known stays."""
    stage.add_pod("a")
    pods, ledger = await stage.started()
    fault = stage.fault(path="/pods$", status=404)
    stage.drop_watches("cut")
    await stage.clock.advance(60)
    assert fault.hits > 2
    assert [pod.name for pod in pods] == ["a"]
    fault.times = fault.hits
    await stage.clock.advance(60)
    assert ledger.take() == ["add a"]
    stage.assert_equal(pods, ledger)


async def test_a_proxys_not_found_does_not_empty_an_optional_copy(stage: Any, gadgets: Any, script: Any) -> None:
    """Only the API server itself can say that a kind is gone."""
    item = {"metadata": {"name": "g", "namespace": "x", "uid": "1", "resourceVersion": "4"}}
    listing = msgspec.json.encode({"metadata": {"resourceVersion": "5"}, "items": [item]})
    page = (404, b"<html><body>no such site</body></html>")
    own_words = (404, b"404 page not found\n")
    stage.client = stage.connect(script(listing, page, own_words, own_words, streams=[[error_line(410)]]))
    informer = stage.informer(gadgets.KIND, optional=True)
    informer.start()
    await settle()
    await stage.clock.advance(0.4)
    assert len(stage.client._transport.answers) == 2
    assert len(informer) == 1
    await stage.clock.advance(2)
    assert len(informer) == 0


class TestCatchUp:
    """A standby that comes to lead wants to know how things are, now."""

    async def test_pause_between_tries_is_cut_short(self, stage: Any) -> None:
        """A watch that would be tried again in half a minute is tried at once; what was missed has come in then."""
        pods, ledger = await stage.started()
        fault = stage.fault(path="/pods$", lose="request")
        stage.drop_watches("cut")
        await stage.clock.advance(60)
        assert fault.hits > 5
        stage.cluster.faults.clear()
        stage.add_pods("late")
        catching_up = asyncio.ensure_future(pods.catch_up())
        await stage.clock.advance(0.2)
        assert catching_up.done()
        stage.assert_equal(pods, ledger)

    async def test_server_that_has_forgotten_is_listed_first(self, stage: Any) -> None:
        """The watch opens, only to say 410: that is not yet the truth."""
        pods, ledger = await stage.started()
        stage.fault(path="/pods$", lose="request", times=8)
        stage.drop_watches("cut")
        await stage.clock.advance(10)
        stage.cluster.faults.clear()
        stage.add_pods("a", "b")
        stage.cluster.store.compact()
        catching_up = asyncio.ensure_future(pods.catch_up())
        await stage.clock.advance(1)
        assert catching_up.done()
        assert stage.warnings["relisted"] == 1
        stage.assert_equal(pods, ledger)

    async def test_nothing_to_wait_for(self, stage: Any, gadgets: Any) -> None:
        """A watch that is open, and a kind that is not served, are as good as it gets."""
        pods, _ = await stage.started()
        absent = stage.informer(gadgets.KIND, optional=True)
        absent.start()
        await stage.clock.advance(1)
        before = stage.clock.now()
        await asyncio.gather(pods.catch_up(), absent.catch_up())
        assert stage.clock.now() == before

    async def test_goes_on_trying_quickly_while_somebody_waits(self, stage: Any) -> None:
        """The server is back a second later: it is not half a minute until that is noticed."""
        pods, ledger = await stage.started()
        stage.fault(path="/pods$", lose="request")
        stage.drop_watches("cut")
        await stage.clock.advance(60)
        catching_up = asyncio.ensure_future(pods.catch_up())
        await stage.clock.advance(1)
        assert not catching_up.done()
        stage.cluster.faults.clear()
        stage.add_pods("late")
        await stage.clock.advance(0.5)
        assert catching_up.done()
        stage.assert_equal(pods, ledger)
