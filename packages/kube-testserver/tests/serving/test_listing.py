"""Lists: pages that fit together, versions, and selectors."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

PODS = "/api/v1/namespaces/default/pods"


def token(**content: Any) -> str:
    """Return a continue token with any content."""
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


async def fill(api: Any, pod: Any, names: str) -> None:
    """Create pods with one-letter names, labelled by whether the letter is even."""
    for name in names:
        await api.ok("POST", PODS, pod(name, labels={"app": "even" if ord(name) % 2 == 0 else "odd"}))


def names(listed: Any) -> str:
    """Return the names of a list in one word."""
    return "".join(item["metadata"]["name"] for item in listed["items"])


async def test_pages_show_one_version(api: Any, pod: Any) -> None:
    """Pages continue at the version of the first, whatever is written in between."""
    await fill(api, pod, "abcde")
    first = await api.ok("GET", PODS, limit="2")
    assert (names(first), first["metadata"]["remainingItemCount"]) == ("ab", 3)
    await api.ok("DELETE", f"{PODS}/d")
    await fill(api, pod, "f")
    patch = {"metadata": {"labels": {"new": "1"}}}
    await api.ok("PATCH", f"{PODS}/c", patch, content_type="application/merge-patch+json")
    second = await api.ok("GET", PODS, limit="2", continue_=first["metadata"]["continue"])
    assert (names(second), second["metadata"]["remainingItemCount"]) == ("cd", 1)
    assert "new" not in second["items"][0]["metadata"]["labels"]
    third = await api.ok("GET", PODS, limit="2", continue_=second["metadata"]["continue"])
    assert names(third) == "e"
    assert third["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}
    assert names(await api.ok("GET", PODS)) == "abcef"


async def test_a_forgotten_version_ends_the_listing(api: Any, pod: Any, cluster: Any) -> None:
    """When the version of a token is gone, the answer is 410 with a token that goes on with the present."""
    await fill(api, pod, "abc")
    first = await api.ok("GET", PODS, limit="1")
    await fill(api, pod, "d")
    cluster.store.compact()
    status, gone = await api("GET", PODS, limit="2", continue_=first["metadata"]["continue"])
    assert (status, gone["reason"], gone["code"]) == (410, "Expired", 410)
    assert gone["message"].startswith("The provided continue parameter is too old to display a consistent list result.")
    rest = await api.ok("GET", PODS, continue_=gone["metadata"]["continue"])
    assert names(rest) == "bcd"


async def test_exact_versions(api: Any, pod: Any, cluster: Any) -> None:
    """An exact version is answered from the past, or not at all."""
    await fill(api, pod, "ab")
    then = str(cluster.store.version)
    await fill(api, pod, "c")
    exact = await api.ok("GET", PODS, resourceVersion=then, resourceVersionMatch="Exact")
    assert (names(exact), exact["metadata"]["resourceVersion"]) == ("ab", then)
    fresh = await api.ok("GET", PODS, resourceVersion=then, resourceVersionMatch="NotOlderThan")
    assert names(fresh) == "abc"
    cluster.store.compact()
    status, reason, message = await api.refused("GET", PODS, resourceVersion=then, resourceVersionMatch="Exact")
    assert (status, reason, message) == (410, "Expired", "The resourceVersion for the provided list is too old.")


async def test_versions_that_have_not_happened(api: Any, pod: Any) -> None:
    """A version of the future is a timeout with a hint to come back."""
    answer = await api.send("GET", PODS, resourceVersion="999999")
    assert (answer.status, answer.headers["retry-after"]) == (504, "1")
    status, reason, message = await api.refused(
        "GET", PODS, resourceVersion="999999", resourceVersionMatch="NotOlderThan"
    )
    assert (status, reason) == (504, "Timeout")
    assert message.startswith("Timeout: Too large resource version: 999999, current: ")
    await fill(api, pod, "z")
    assert (await api.refused("GET", f"{PODS}/z", resourceVersion="999999"))[0] == 504
    assert (await api("GET", f"{PODS}/z", resourceVersion="1"))[0] == 200


@pytest.mark.parametrize(
    ("selectors", "expected"),
    [
        pytest.param({"labelSelector": "app=even"}, "bd", id="label"),
        pytest.param({"labelSelector": "app in (odd),app"}, "ac", id="set"),
        pytest.param({"fieldSelector": "metadata.name=a"}, "a", id="name"),
        pytest.param({"fieldSelector": "metadata.name!=a,metadata.namespace=default"}, "bcd", id="not the name"),
        pytest.param({"fieldSelector": "metadata.namespace=other"}, "", id="another namespace"),
        pytest.param({"fieldSelector": "spec.nodeName="}, "abc", id="unbound"),
        pytest.param({"fieldSelector": "spec.nodeName=n"}, "d", id="bound"),
        pytest.param({"fieldSelector": "status.phase!=Failed", "labelSelector": "app=even"}, "bd", id="both"),
        pytest.param({"fieldSelector": "metadata.name=d,spec.nodeName=n", "labelSelector": "app"}, "d", id="all three"),
        pytest.param({"fieldSelector": "spec.hostNetwork=false"}, "abcd", id="booleans"),
        pytest.param({"fieldSelector": "spec.schedulerName=default-scheduler"}, "abcd", id="scheduler"),
    ],
)
async def test_selectors(api: Any, pod: Any, selectors: dict[str, str], expected: str) -> None:
    """Label and field selectors narrow a list, alone and together."""
    await fill(api, pod, "abcd")
    await api.ok("POST", f"{PODS}/d/binding", {"metadata": {"name": "d"}, "target": {"name": "n"}})
    listed = await api.ok("GET", PODS, **selectors)
    assert names(listed) == expected


@pytest.mark.parametrize(
    ("query", "words"),
    [
        pytest.param({"labelSelector": "a in"}, "unable to parse requirement", id="label selector"),
        pytest.param({"fieldSelector": "a"}, "invalid selector: 'a'; can't understand 'a'", id="field selector"),
        pytest.param({"fieldSelector": "spec.x=1"}, "field label not supported: spec.x", id="field"),
        pytest.param({"limit": "many"}, 'limit: Invalid value: "many"', id="limit"),
        pytest.param({"resourceVersion": "new"}, 'resourceVersion: Invalid value: "new"', id="version"),
        pytest.param(
            {"continue_": "***"}, "invalid continue token: continue key is not valid: illegal base64", id="base64"
        ),
        pytest.param(
            {"continue_": "a"}, "invalid continue token: continue key is not valid: illegal base64", id="length"
        ),
        pytest.param(
            {"continue_": token(v="x", rv=1, start="a")}, "does not recognize this encoded version", id="format"
        ),
        pytest.param({"timeoutSeconds": "x", "watch": "1"}, 'timeoutSeconds: Invalid value: "x"', id="timeout"),
    ],
)
async def test_unreadable_queries(api: Any, query: dict[str, str], words: str) -> None:
    """What cannot be read is a bad request that says what it is."""
    status, reason, message = await api.refused("GET", PODS, **query)
    assert (status, reason) == (400, "BadRequest")
    assert words in message


async def test_fields_of_kinds_without_any(api: Any) -> None:
    """Most kinds can be selected by name and namespace only, and say so."""
    path = "/api/v1/namespaces/default/configmaps"
    await api.ok("POST", path, {"metadata": {"name": "a"}})
    assert names(await api.ok("GET", path, fieldSelector="metadata.name=a")) == "a"
    assert (await api.refused("GET", path, fieldSelector="data.x=1"))[2] == (
        '"data.x" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )


@pytest.mark.parametrize(
    ("query", "words"),
    [
        pytest.param(
            {"resourceVersionMatch": "Exact", "resourceVersion": "0"}, 'forbidden for resourceVersion "0"', id="0"
        ),
        pytest.param(
            {"resourceVersionMatch": "Some", "resourceVersion": "1"}, 'Unsupported value: "Some"', id="unknown"
        ),
        pytest.param(
            {"resourceVersionMatch": "Exact", "resourceVersion": "1", "continue_": "x"},
            "forbidden when continue is provided",
            id="continue",
        ),
        pytest.param({"sendInitialEvents": "true"}, "sendInitialEvents is forbidden for list", id="initial events"),
        pytest.param(
            {"watch": "1", "sendInitialEvents": "true"},
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            id="initial events alone",
        ),
        pytest.param(
            {"watch": "1", "resourceVersionMatch": "NotOlderThan"},
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            id="match of a watch",
        ),
    ],
)
async def test_contradictory_queries(api: Any, query: dict[str, str], words: str) -> None:
    """Options that exclude each other are invalid."""
    status, reason, message = await api.refused("GET", PODS, **query)
    assert (status, reason) == (422, "Invalid")
    assert words in message
