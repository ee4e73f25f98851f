"""Events: two views of one store, and what the server asks of them."""

from __future__ import annotations

from typing import Any

import pytest

CORE = "/api/v1/namespaces/default/events"
NEWER = "/apis/events.k8s.io/v1/namespaces/default/events"


def newer_event(name: str = "p.1", **fields: Any) -> dict[str, Any]:
    """Return a complete event of events.k8s.io/v1."""
    return {
        "metadata": {"name": name},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "pyscheduler",
        "reportingInstance": "pyscheduler-host",
        "action": "Binding",
        "reason": "Scheduled",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
        "note": "Successfully assigned default/p to n",
        "type": "Normal",
        **fields,
    }


def older_event(name: str = "p.2", **fields: Any) -> dict[str, Any]:
    """Return a complete event of core/v1."""
    return {
        "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        "reason": "Pulled",
        "message": "image",
        "source": {"component": "kubelet", "host": "n"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:01:00Z",
        "count": 3,
        "type": "Warning",
        **fields,
    }


async def test_an_event_reads_the_same_through_both_views(api: Any) -> None:
    """What one view wrote the other shows under its own names."""
    await api.ok("POST", NEWER, newer_event())
    await api.ok("POST", CORE, older_event())
    core = await api.ok("GET", f"{CORE}/p.1")
    assert (core["apiVersion"], core["message"]) == ("v1", "Successfully assigned default/p to n")
    assert core["involvedObject"]["name"] == "p"
    assert (core["reportingComponent"], core["source"], core["firstTimestamp"]) == ("pyscheduler", {}, None)
    newer = await api.ok("GET", f"{NEWER}/p.2")
    assert (newer["apiVersion"], newer["note"]) == ("events.k8s.io/v1", "image")
    assert newer["deprecatedSource"] == {"component": "kubelet", "host": "n"}
    assert (newer["deprecatedCount"], newer["deprecatedLastTimestamp"]) == (3, "2026-01-01T00:01:00Z")
    assert not {"reportingController", "reportingInstance"} & newer.keys()


@pytest.mark.parametrize(
    ("path", "selector", "expected"),
    [
        pytest.param(CORE, "involvedObject.name=p,involvedObject.kind=Pod", 2, id="object"),
        pytest.param(NEWER, "regarding.name=p", 2, id="object by its newer name"),
        pytest.param(CORE, "reason=Scheduled", 1, id="reason"),
        pytest.param(CORE, "type!=Normal", 1, id="type"),
        pytest.param(NEWER, "reportingController=pyscheduler", 1, id="reporter"),
        pytest.param(CORE, "source=kubelet", 1, id="source"),
    ],
)
async def test_events_are_found_by_their_fields(api: Any, path: str, selector: str, expected: int) -> None:
    """The selectors of `kubectl describe` and of event readers."""
    await api.ok("POST", NEWER, newer_event())
    await api.ok("POST", CORE, older_event())
    assert len((await api.ok("GET", path, fieldSelector=selector))["items"]) == expected


@pytest.mark.parametrize(
    ("path", "event", "words"),
    [
        pytest.param(NEWER, newer_event(note="x" * 1025), "message: Invalid value", id="long note"),
        pytest.param(NEWER, newer_event(action=""), "action: Required value", id="no action"),
        pytest.param(NEWER, newer_event(reason=""), "reason: Required value", id="no reason"),
        pytest.param(NEWER, newer_event(reportingController=""), "reportingController: Required", id="no reporter"),
        pytest.param(NEWER, newer_event(reportingInstance=""), "reportingInstance: Required", id="no instance"),
        pytest.param(NEWER, newer_event(type="Odd"), "type: Invalid value", id="type"),
        pytest.param(
            "/apis/events.k8s.io/v1/namespaces/kube-public/events",
            newer_event(regarding={"kind": "Node", "name": "n"}),
            "involvedObject.namespace: Invalid value",
            id="of no namespace",
        ),
        pytest.param(
            CORE, older_event(involvedObject={"namespace": "x"}), "does not match event.namespace", id="other"
        ),
    ],
)
async def test_refused_events(api: Any, path: str, event: Any, words: str) -> None:
    """The newer view asks for who, what and when, and bounds the note."""
    status, reason, message = await api.refused("POST", path, event)
    assert (status, reason) == (422, "Invalid")
    assert message.startswith('Event "p.')
    assert words in message


async def test_events_are_forgotten_after_an_hour(api: Any, clock: Any) -> None:
    """An event goes an hour after it was last written, when the next one comes; watchers are told."""
    for name in ("old", "kept", "gone"):
        await api.ok("POST", NEWER, newer_event(name))
    await api.ok("DELETE", f"{CORE}/gone")
    await clock.advance(1800)
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:05:00.000000Z"}}
    await api.ok("PATCH", f"{NEWER}/kept", series, content_type="application/merge-patch+json")
    watcher = await api.watch(CORE)
    await clock.advance(1800)
    await api.ok("POST", NEWER, newer_event("new"))
    assert [item["metadata"]["name"] for item in (await api.ok("GET", CORE))["items"]] == ["kept", "new"]
    assert (await watcher.seen())[2:] == [("ADDED", "new"), ("DELETED", "old")]
