"""Watches: from where they start, what selectors make of changes, bookmarks, and how they end."""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import given, settings, strategies as st

from kube_objects.clock import LoopClock
from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.serving.watching import BrokenStreamError

PODS = "/api/v1/namespaces/default/pods"


async def test_too_old_a_version_is_told_within_the_stream(api: Any, pod: Any, cluster: Any) -> None:
    """The stream opens, says 410 and ends: list again."""
    await api.ok("POST", PODS, pod("p"))
    cluster.store.compact()
    watcher = await api.watch(PODS, resourceVersion="1", allowWatchBookmarks="true")
    await watcher.seen()
    [event] = watcher.events
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert event["object"]["message"] == f"too old resource version: 1 ({cluster.store.version})"
    assert watcher.ended


async def test_a_reader_that_was_overtaken_is_told_so(api: Any, pod: Any, cluster: Any) -> None:
    """When the log forgets what a watch has not read yet, the watch ends with 410."""
    watcher = await api.watch(PODS)
    await watcher.seen()
    cluster.registry.create(cluster.resource("v1", "Pod"), "default", pod("p"))
    cluster.store.compact()  # before the watch had its turn
    await watcher.seen()
    assert [event["type"] for event in watcher.events] == ["ERROR"]
    assert watcher.ended


async def test_bookmarks_tell_the_version_of_quiet_times(api: Any, pod: Any, cluster: Any, clock: Any) -> None:
    """Once a minute a bookmark says how far the watch has come, though nothing here changed."""
    watcher = await api.watch(PODS, allowWatchBookmarks="true")
    plain = await api.watch(PODS)
    await api.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
    await clock.advance(59)
    assert await watcher.seen() == []
    await clock.advance(62)
    versions = [(event["type"], event["object"]["metadata"]["resourceVersion"]) for event in watcher.events]
    assert versions == [("BOOKMARK", str(cluster.store.version))] * 2
    assert watcher.events[0]["object"] == {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": str(cluster.store.version)},
        "spec": {"containers": None},
        "status": {},
    }
    assert await plain.seen() == []


async def test_a_watch_ends_when_its_time_is_up(api: Any, pod: Any, clock: Any) -> None:
    """The timeout of the query ends the stream cleanly, after everything was told."""
    watcher = await api.watch(PODS, timeoutSeconds="5")
    await clock.advance(4)
    await api.ok("POST", PODS, pod("p"))
    await clock.advance(2)
    assert await watcher.seen() == [("ADDED", "p")]
    assert watcher.ended


async def test_dropped_watches(api: Any, pod: Any, cluster: Any) -> None:
    """Watches can be ended, cut, or cut within a line, all or those of a path."""
    ended, cut = await api.watch(PODS), await api.watch("/api/v1/nodes")
    torn = await api.watch("/api/v1/namespaces/default/configmaps", resourceVersion=str(cluster.store.version))
    await ended.seen()
    assert cluster.router.drop_watches("/pods") == 1
    assert cluster.router.drop_watches("/nodes", how="cut") == 1
    assert cluster.router.drop_watches("/configmaps", how="within") == 1
    await ended.seen()
    assert (ended.ended, ended.error) == (True, None)
    assert isinstance(cut.error, BrokenStreamError)
    assert (torn.ended, torn.error) == (False, None)  # waits for a line to tear
    await api.ok("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "c"}})
    await torn.seen()
    assert isinstance(torn.error, AssertionError)  # the collector noticed half a line
    for watcher in (ended, cut, torn):
        watcher.stream.close()
    assert cluster.router.drop_watches() == 0


async def test_closed_watches_leave_nothing_behind(api: Any, cluster: Any, clock: Any) -> None:
    """A closed stream is heard of no more: no listener, no timer, no entry."""
    watcher = await api.watch(PODS, timeoutSeconds="50", allowWatchBookmarks="true")
    await watcher.seen()
    watcher.stream.close()
    watcher.stream.close()
    await watcher.seen()
    collection = cluster.registry.collection(cluster.resource("v1", "Pod"))
    assert not collection._listeners
    assert not cluster.router._streams
    assert all(timer.callback is None for _, _, timer in clock._timers)


async def test_a_burst_is_one_chunk(api: Any, pod: Any, cluster: Any) -> None:
    """What was written before the reader had its turn arrives together."""
    watcher = await api.watch(PODS)
    await watcher.seen()
    pods = cluster.resource("v1", "Pod")
    chunks = []
    for index in range(600):
        cluster.registry.create(pods, "default", pod(f"p{index}"))
    read = watcher.stream.__anext__
    watcher._task.cancel()
    chunks = [await read(), await read()]
    assert [chunk.count(b"\n") for chunk in chunks] == [512, 88]


async def test_tables_and_metadata_can_be_watched(api: Any, pod: Any) -> None:
    """A watch speaks in the form its client asked for; the columns come once."""
    tables = await api.watch(PODS, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    partial = await api.watch(PODS, accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
    for name in "ab":
        await api.ok("POST", PODS, pod(name))
    await tables.seen()
    await partial.seen()
    first, second = (event["object"] for event in tables.events)
    assert first["columnDefinitions"][0]["name"] == "Name"
    assert second["columnDefinitions"] is None
    assert second["rows"][0]["cells"][:3] == ["b", "0/1", "Pending"]
    assert [event["object"]["kind"] for event in partial.events] == ["PartialObjectMetadata"] * 2
    assert set(partial.events[0]["object"]) == {"kind", "apiVersion", "metadata"}


LABELS = st.sampled_from(["red", "green", None])
STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["write", "delete"]), LABELS), max_size=12)


@settings(max_examples=settings.default.max_examples)
@given(steps=STEPS, started=st.integers(0, 12))
async def test_a_filtered_watch_follows_the_filtered_list(steps: Any, started: int) -> None:
    """From any moment on, list plus watch under a selector is the list under that selector."""
    cluster = EmbeddedCluster(clock=LoopClock(), rng=random.Random(1))
    transport = cluster.client()
    resource = cluster.resource("v1", "ConfigMap")
    path, query = "/api/v1/namespaces/default/configmaps", {"labelSelector": "color=red"}

    def apply(name: str, what: str, color: str | None) -> None:
        present = cluster.registry.collection(resource).get(f"default/{name}")
        metadata = {"name": name, "labels": {"color": color} if color else {}}
        if what == "delete" and present is not None:
            cluster.remove("v1", "ConfigMap", name)
        elif what == "write" and present is not None:
            cluster.registry.update(resource, "default", name, {"metadata": metadata})
        elif what == "write":
            cluster.add({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    for step in steps[:started]:
        apply(*step)
    listed = json.loads((await transport.request("GET", path, query=query)).body)
    state = {item["metadata"]["name"]: item["metadata"]["uid"] for item in listed["items"]}
    watch = {**query, "watch": "1", "resourceVersion": listed["metadata"]["resourceVersion"]}
    for step in steps[started:]:
        apply(*step)
    async with transport.stream(path, query=watch) as stream:
        cluster.router.drop_watches()  # ends when everything is told
        async for chunk in stream:
            for line in chunk.splitlines():
                event = json.loads(line)
                metadata = event["object"]["metadata"]
                if event["type"] == "DELETED":
                    del state[metadata["name"]]
                else:
                    state[metadata["name"]] = metadata["uid"]
    now = json.loads((await transport.request("GET", path, query=query)).body)
    assert state == {item["metadata"]["name"]: item["metadata"]["uid"] for item in now["items"]}
    cluster.check_invariants()


async def test_a_state_of_the_future_cannot_be_sent(api: Any) -> None:
    """Whoever asks for the state first, as of a version that has not happened, is told so within the stream."""
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    watcher = await api.watch(PODS, resourceVersion="99999", allowWatchBookmarks="true", **query)
    await watcher.seen()
    [event] = watcher.events
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 504, "Timeout")
    assert event["object"]["details"]["retryAfterSeconds"] == 1
    assert watcher.ended


async def test_a_watch_without_a_timeout_ends_within_the_hour(api: Any, clock: Any) -> None:
    """Watches last between thirty minutes and an hour, and not all the same."""
    watchers = [await api.watch(PODS) for _ in range(4)]
    await clock.advance(1800)
    assert not any(watcher.ended for watcher in watchers)
    await clock.advance(900)
    assert 0 < sum(watcher.ended for watcher in watchers) < 4
    await clock.advance(900)
    assert all(watcher.ended for watcher in watchers)
