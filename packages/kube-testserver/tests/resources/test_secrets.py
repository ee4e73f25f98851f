"""Secrets: plain text in, base64 out, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from kube_testserver.cluster import EmbeddedCluster

SECRETS = "/api/v1/namespaces/default/secrets"
BAD_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
IMMUTABLE = "field is immutable when `immutable` is set"


def secret(name: str = "s", **fields: Any) -> dict[str, Any]:
    """Return a secret."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, **fields}


async def test_string_data_is_merged_into_data_and_not_stored(api: Any) -> None:
    """Plain text wins over `data` of the same key, and reads as base64."""
    given = secret(data={"x": "eA==", "k": ""}, stringData={"x": "hello", "y": "", "z": "ü"})
    created = await api.ok("POST", SECRETS, given)
    assert created["data"] == {"k": "", "x": "aGVsbG8=", "y": "", "z": "w7w="}
    assert created["type"] == "Opaque"
    stored = await api.ok("GET", f"{SECRETS}/s")
    assert "stringData" not in stored
    assert stored == created


async def test_update_replaces_data_by_string_data(api: Any) -> None:
    """A PUT is a whole secret: what it does not name is gone."""
    await api.ok("POST", SECRETS, secret(data={"x": "eA=="}, stringData={"y": "1"}))
    updated = await api.ok("PUT", f"{SECRETS}/s", secret(stringData={"x": "new"}))
    assert updated["data"] == {"x": "bmV3"}
    assert "data" not in await api.ok("PUT", f"{SECRETS}/s", secret(stringData={}))


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        pytest.param({"stringData": {"q": "1"}}, "application/merge-patch+json", id="merge"),
        pytest.param({"stringData": {"q": "1"}}, "application/strategic-merge-patch+json", id="strategic"),
        pytest.param(
            [{"op": "add", "path": "/stringData", "value": {"q": "1"}}], "application/json-patch+json", id="json"
        ),
        pytest.param(secret(stringData={"q": "1"}), "application/apply-patch+yaml", id="apply"),
    ],
)
async def test_patch_adds_string_data(api: Any, body: Any, content_type: str) -> None:
    """Each kind of patch may set plain text; other keys stay."""
    await api.ok("POST", SECRETS, secret(data={"x": "eA=="}))
    query = {"fieldManager": "f"} if "apply" in content_type else {}
    patched = await api.ok("PATCH", f"{SECRETS}/s", body, content_type=content_type, **query)
    assert patched["data"] == {"x": "eA==", "q": "MQ=="}
    assert "stringData" not in patched


def test_cluster_add_takes_string_data(cluster: EmbeddedCluster) -> None:
    """Objects that are added in Python take the same way."""
    [added] = cluster.add(secret(stringData={"a": "b"}))
    assert added["data"] == {"a": "Yg=="}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("eHh4eHh4?", 8),
        ("eHh4e", 5),
        ("eHh4-_==", 4),
        ("eHh4=", 4),
        ("ü", 0),
    ],
)
async def test_data_that_is_not_base64(api: Any, text: str, place: int) -> None:
    """Bad base64 is a bad request that names the first byte outside the alphabet."""
    status, reason, message = await api.refused("POST", SECRETS, secret(data={"x": text}))
    assert (status, reason) == (400, "BadRequest")
    words = f"illegal base64 data at input byte {place}"
    assert message == f'Secret in version "v1" cannot be handled as a Secret: {words}'


@pytest.mark.parametrize(("text", "stored"), [("eA==\n", "eA=="), ("eH\r\nh4", "eHh4"), ("eHh4eB==", "eHh4eA==")])
async def test_base64_is_stored_in_one_spelling(api: Any, text: str, stored: str) -> None:
    """Line breaks, and bits behind the last byte, are read and not kept."""
    assert (await api.ok("POST", SECRETS, secret(data={"x": text})))["data"] == {"x": stored}


@pytest.mark.parametrize(
    ("fields", "problems"),
    [
        pytest.param({"data": {"a/b": "eA=="}}, [f'data[a/b]: Invalid value: "a/b": {BAD_KEY}'], id="key"),
        pytest.param({"stringData": {"": "x"}}, [f'data[]: Invalid value: "": {BAD_KEY}'], id="no key"),
        pytest.param({"data": {"..": "eA=="}}, ["data[..]: Invalid value: \"..\": must not be '..'"], id="dots"),
        pytest.param(
            {"data": {"..a": "eA=="}}, ["data[..a]: Invalid value: \"..a\": must not start with '..'"], id="two dots"
        ),
        pytest.param(
            {"data": {"a" * 254: ""}},
            [f'data[{"a" * 254}]: Invalid value: "{"a" * 254}": must be no more than 253 bytes'],
            id="long key",
        ),
        pytest.param(
            {"stringData": {"a": "x" * (1 << 20), "b": "x"}},
            ["data: Too long: may not be more than 1048576 bytes"],
            id="too much",
        ),
        pytest.param(
            {"type": "kubernetes.io/tls"},
            ["data[tls.crt]: Required value", "data[tls.key]: Required value"],
            id="certificate",
        ),
        pytest.param(
            {"type": "kubernetes.io/basic-auth"},
            ["data[username]: Required value", "data[password]: Required value"],
            id="login",
        ),
        pytest.param(
            {"type": "kubernetes.io/ssh-auth", "stringData": {"ssh-privatekey": ""}},
            ["data[ssh-privatekey]: Required value"],
            id="ssh",
        ),
        pytest.param(
            {"type": "kubernetes.io/service-account-token"},
            ["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
            id="account",
        ),
    ],
)
async def test_invalid_secrets(api: Any, fields: dict[str, Any], problems: list[str]) -> None:
    """Keys, size and the keys that a type asks for are checked, in the words of the real server."""
    status, reason, message = await api.refused("POST", SECRETS, secret(**fields))
    assert (status, reason) == (422, "Invalid")
    text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    assert message == f'Secret "s" is invalid: {text}'


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "kubernetes.io/tls", "stringData": {"tls.crt": "", "tls.key": ""}},
        {"type": "kubernetes.io/basic-auth", "stringData": {"password": "p"}},
        {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "{}"}},
        {"type": "helm.sh/release.v1", "stringData": {"release": "r"}},
    ],
)
async def test_secrets_of_each_type(api: Any, fields: dict[str, Any]) -> None:
    """A type that is satisfied, or not known, is stored."""
    assert (await api.ok("POST", SECRETS, secret(**fields)))["type"] == fields["type"]


async def test_immutable_secrets(api: Any) -> None:
    """The type never changes; with `immutable`, neither do the data."""
    await api.ok("POST", SECRETS, secret(data={"x": "eA=="}, immutable=True))
    merge = {"content_type": "application/merge-patch+json"}

    async def refusal(patch: dict[str, Any]) -> str:
        return str((await api.refused("PATCH", f"{SECRETS}/s", patch, **merge))[2])

    assert await refusal({"type": "other"}) == 'Secret "s" is invalid: type: Invalid value: "other": field is immutable'
    assert await refusal({"stringData": {"x": "y"}}) == f'Secret "s" is invalid: data: Forbidden: {IMMUTABLE}'
    assert await refusal({"immutable": False}) == f'Secret "s" is invalid: immutable: Forbidden: {IMMUTABLE}'
    await api.ok("PATCH", f"{SECRETS}/s", {"metadata": {"labels": {"a": "b"}}, "stringData": {"x": "x"}}, **merge)
