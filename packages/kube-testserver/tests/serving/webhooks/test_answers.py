"""Effects of the answers of webhooks: changes, refusals, failures."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import ipaddress
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kube_testserver.cluster import EmbeddedCluster

GROUP = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
NO_ANSWER = 'Internal error occurred: failed calling webhook "hook.example.com": '

Respond = Callable[[dict[str, Any]], dict[str, Any] | web.Response]


def config_map(name: str = "c", **fields: Any) -> dict[str, Any]:
    """Return a ConfigMap; `labels` go into its metadata."""
    metadata = {"name": name} | ({"labels": fields.pop("labels")} if "labels" in fields else {})
    return {"metadata": metadata, **fields}


# --- changes ------------------------------------------------------------------------------------------


async def test_changes_of_several_webhooks(api: Any, hook: Any) -> None:
    """Webhooks change an object in the order of their configurations; each sees what was changed before."""

    def respond(request: dict[str, Any]) -> dict[str, Any]:
        labels = request["object"]["metadata"].get("labels") or {}
        return hook.patch_of({"op": "add", "path": "/metadata/labels", "value": {**labels, f"l{len(labels)}": "x"}})

    hook.respond = respond
    await hook.configure(api, hook.spec(), kind="mutating", name="b")
    await hook.configure(api, hook.spec(), kind="mutating", name="a")
    created = await api.ok("POST", MAPS, config_map(data={"a": "b"}))
    assert created["metadata"]["labels"] == {"l0": "x", "l1": "x"}
    updated = await api.ok("PUT", f"{MAPS}/c", config_map(data={"a": "c"}))
    assert updated["metadata"]["labels"] == {"l0": "x", "l1": "x"}
    assert updated["data"] == {"a": "c"}


async def test_validating_webhooks_see_what_others_changed(api: Any, hook: Any) -> None:
    """First all changes, then the defaults of what was added, then the validation."""
    hook.respond = lambda request: (
        {"allowed": True}
        if "uid" in request["object"]["metadata"]
        else hook.patch_of({"op": "add", "path": "/spec/containers/-", "value": {"name": "side", "image": "side:1"}})
    )
    rules = [{**hook.all_rules[0], "resources": ["pods"]}]
    await hook.configure(api, hook.spec(rules=rules), kind="mutating")
    await hook.configure(api, hook.spec(rules=rules))
    given = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    created = await api.ok("POST", PODS, given)
    assert [one["name"] for one in created["spec"]["containers"]] == ["c", "side"]
    assert created["spec"]["containers"][1]["imagePullPolicy"] == "IfNotPresent"
    changing, validating = hook.requests()
    assert changing["object"]["spec"]["dnsPolicy"] == "ClusterFirst"
    assert validating["object"]["spec"]["containers"] == created["spec"]["containers"]


async def test_status_of_a_custom_resource(api: Any, hook: Any) -> None:
    """A webhook sees custom objects with their defaults; of a write of the status only the status is taken."""
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 3}}, "default": {}},
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        },
    }
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}
    names = {"plural": "things", "kind": "Thing"}
    versions = [{**version, "schema": {"openAPIV3Schema": schema}}]
    spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": versions}
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await api.ok("POST", crds, {"metadata": {"name": "things.example.com"}, "spec": spec})
    await hook.configure(api, hook.spec(rules=hook.all_rules), kind="mutating")
    await api.ok("POST", "/apis/example.com/v1/things", {"metadata": {"name": "t"}})
    assert hook.requests()[0]["object"]["spec"] == {"size": 3}
    hook.respond = lambda _: hook.patch_of(
        {"op": "replace", "path": "/spec/size", "value": 9}, {"op": "add", "path": "/status/phase", "value": "Set"}
    )
    patch = {"status": {"phase": "Asked"}}
    changed = await api.ok("PATCH", "/apis/example.com/v1/things/t/status", patch, content_type=MERGE)
    assert (changed["spec"], changed["status"]) == ({"size": 3}, {"phase": "Set"})


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        pytest.param([{"op": "remove", "path": "/metadata/x"}], "Internal error occurred: missing path", id="no path"),
        pytest.param(
            [{"op": "add", "path": "/data", "value": "x"}],
            "Internal error occurred: json: cannot unmarshal string into Go struct field ConfigMap.data",
            id="shape",
        ),
        pytest.param([{"op": "remove", "path": "/metadata"}], "leaves no object", id="no metadata"),
        pytest.param(
            [{"op": "add", "path": "/metadata/labels", "value": {"a b": ""}}],
            'ConfigMap "c" is invalid: metadata.labels: Invalid value: "a b"',
            id="validation",
        ),
    ],
)
async def test_changes_that_fail(api: Any, hook: Any, operations: list[Any], message: str) -> None:
    """A patch that does not fit is an internal error; a changed object that is invalid is invalid."""
    hook.respond = lambda _: hook.patch_of(*operations)
    await hook.configure(api, hook.spec(), kind="mutating")
    assert message in (await api.refused("POST", MAPS, config_map()))[2]


async def test_refusal_by_a_changing_webhook(api: Any, hook: Any) -> None:
    """A changing webhook may refuse, too; no validating one is asked then."""
    hook.respond = lambda _: {"allowed": False, "status": {"message": "no"}}
    await hook.configure(api, hook.spec(), kind="mutating")
    await hook.configure(api, hook.spec())
    message = (await api.refused("POST", MAPS, config_map()))[2]
    assert message == 'admission webhook "hook.example.com" denied the request: no'
    assert len(hook.reviews) == 1


# --- refusals and failures ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"message": "no way", "code": 418, "reason": "Teapot"}, (418, "Teapot", ": no way")),
        ({"reason": "Because"}, (400, "Because", ": Because")),
        ({"code": 200}, (400, "", " without explanation")),
        (None, (400, "", " without explanation")),
    ],
)
async def test_refusals(api: Any, hook: Any, status: Any, expected: tuple[int, str, str]) -> None:
    """The client gets code, reason and message of the webhook."""
    hook.respond = lambda _: {"allowed": False, "status": status}
    await hook.configure(api, hook.spec())
    code, reason, why = expected
    text = f'admission webhook "hook.example.com" denied the request{why}'
    assert await api.refused("POST", MAPS, config_map()) == (code, reason, text)
    assert not (await api.ok("GET", MAPS))["items"]


async def test_details_of_a_refusal(api: Any, hook: Any) -> None:
    """Details are passed on."""
    details = {"causes": [{"message": "c", "field": "f"}]}
    hook.respond = lambda _: {"allowed": False, "status": {"message": "m", "details": details}}
    await hook.configure(api, hook.spec())
    assert (await api("POST", MAPS, config_map()))[1]["details"] == details


async def test_warnings(api: Any, hook: Any) -> None:
    """Warnings of webhooks reach the client, beside those of the server."""
    hook.respond = lambda _: {"allowed": True, "warnings": ["be careful", 'say "x"']}
    await hook.configure(api, hook.spec(), hook.spec(name="second.example.com"))
    answer = await api.send("POST", MAPS, {**config_map(), "odd": 1}, fieldValidation="Warn")
    warnings = ['unknown field \\"odd\\"', "be careful", 'say \\"x\\"']
    assert answer.headers["warning"] == ", ".join(f'299 - "{text}"' for text in warnings)


def answer_with(body: Any, status: int = 200) -> Respond:
    """Return a responder that does not care about the review."""
    return lambda _: (
        web.Response(text=body, status=status) if isinstance(body, str) else web.json_response(body, status=status)
    )


REVIEW = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
INVALID = "received invalid webhook response: "
NOT_CALLED = "failed to call webhook: "


@pytest.mark.parametrize(
    ("respond", "message"),
    [
        pytest.param(answer_with({**REVIEW}), f"{INVALID}webhook response was absent", id="no response"),
        pytest.param(
            answer_with({"response": {}}),
            f"{INVALID}expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
            id="no kind",
        ),
        pytest.param(
            lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": "W10="},
            f"{INVALID}validating webhook may not return response.patch",
            id="patch",
        ),
        pytest.param(
            lambda _: {"allowed": True, "patchType": "JSONPatch"},
            f"{INVALID}validating webhook may not return response.patchType",
            id="type of a patch",
        ),
        pytest.param(answer_with("hello"), f"{NOT_CALLED}couldn't get version/kind; json parse error: inv", id="text"),
        pytest.param(answer_with([]), "json: cannot unmarshal array into Go value of type struct", id="list"),
        pytest.param(
            answer_with(""),
            f"{NOT_CALLED}0-length response with status code: 200 and content type: text/plain; charset=utf-8",
            id="empty",
        ),
        pytest.param(
            answer_with("boom", 500),
            f'{NOT_CALLED}an error on the server ("boom") has prevented the request from succeeding',
            id="500",
        ),
        pytest.param(answer_with("", 404), f"{NOT_CALLED}the server could not find the requested resource", id="404"),
        pytest.param(
            answer_with("", 418),
            f"{NOT_CALLED}the server responded with the status code 418 but did not return more information",
            id="418",
        ),
    ],
)
async def test_failures(api: Any, hook: Any, respond: Respond, message: str) -> None:
    """A wrong answer is an internal error, in the words of the real server; with `Ignore`, the write passes."""
    hook.respond = respond
    await hook.configure(api, hook.spec())
    code, reason, text = await api.refused("POST", MAPS, config_map())
    assert (code, reason) == (500, "InternalError")
    assert text.startswith(NO_ANSWER)
    assert message in text
    path = f"{GROUP}/validatingwebhookconfigurations/hooks"
    change = [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]
    await api.ok("PATCH", path, change, content_type="application/json-patch+json")
    await api.ok("POST", MAPS, config_map())


@pytest.mark.parametrize(
    ("response", "message"),
    [
        ({"patch": "W10="}, f"{INVALID}webhook returned response.patch but not response.patchType"),
        ({"patchType": "JSONPatch"}, f"{INVALID}webhook returned response.patchType but not response.patch"),
        ({"uid": "x"}, 'got "x"'),
        (
            {"patch": "enp6", "patchType": "JSONPatch"},
            "received undecodable patch in webhook response: invalid character 'z' looking for beginning of value",
        ),
        ({"patch": "e30=", "patchType": "JSONPatch"}, "it is not a list of operations"),
        ({"patch": "?", "patchType": "JSONPatch"}, "illegal base64 data"),
    ],
)
async def test_answers_of_changing_webhooks_that_are_none(
    api: Any, hook: Any, response: dict[str, Any], message: str
) -> None:
    """A patch has to be one, and to say so."""
    hook.respond = lambda _: {"allowed": True, **response}
    await hook.configure(api, hook.spec(), kind="mutating")
    text = (await api.refused("POST", MAPS, config_map()))[2]
    assert text.startswith(NO_ANSWER)
    assert message in text


@pytest.mark.parametrize(
    ("client", "message"),
    [
        pytest.param(
            {"url": "https://127.0.0.1:1/x"},
            'Post "https://127.0.0.1:1/x?timeout=10s": dial tcp 127.0.0.1:1: connect: connection refused',
            id="refused",
        ),
        pytest.param(
            {"service": {"name": "x", "namespace": "y", "path": "/z"}},
            'Post "https://x.y.svc:443/z?timeout=10s": service "x" not found',
            id="service",
        ),
        pytest.param(
            {"service": {"name": "web", "namespace": "default", "port": 8443}},
            'Post "https://web.default.svc:8443/?timeout=10s": no endpoints available for service "web"',
            id="service that exists",
        ),
        pytest.param(
            {"url": "https://127.0.0.1:1/x", "caBundle": "eHg="}, 'Post "https://127.0.0.1:1/x?timeout=10s": ', id="CA"
        ),
    ],
)
async def test_webhooks_that_cannot_be_reached(api: Any, hook: Any, client: dict[str, Any], message: str) -> None:
    """The server says where it looked for the webhook, and why it did not get there."""
    await api.ok("POST", MAPS.replace("configmaps", "services"), {"metadata": {"name": "web"}, "spec": {}})
    await hook.configure(api, hook.spec(clientConfig=client))
    text = (await api.refused("POST", MAPS, config_map()))[2]
    assert text.startswith(f"{NO_ANSWER}{NOT_CALLED}{message}")


@pytest.mark.slow
async def test_webhook_that_takes_too_long(api: Any, hook: Any) -> None:
    """A webhook has as many seconds as its configuration says."""
    hook.delay_seconds = 30
    await hook.configure(api, hook.spec(timeoutSeconds=1))
    text = (await api.refused("POST", MAPS, config_map()))[2]
    assert text == f'{NO_ANSWER}{NOT_CALLED}Post "{hook.url}?timeout=1s": context deadline exceeded'


# --- time passes --------------------------------------------------------------------------------------


async def test_object_that_changes_meanwhile_is_reviewed_again(api: Any, hook: Any, cluster: EmbeddedCluster) -> None:
    """The stored object is the one that the webhook allowed, also if another client wrote meanwhile."""
    await api.ok("POST", MAPS, config_map(data={"a": "1"}))
    await hook.configure(api, hook.spec())
    map_resource = cluster.resource("v1", "ConfigMap")

    def respond(_: dict[str, Any]) -> dict[str, Any]:
        if len(hook.reviews) == 1:
            new = {**config_map(data={"a": "2"})}
            cluster.registry.update(map_resource, "default", "c", new)
        return {"allowed": True}

    hook.respond = respond
    changed = await api.ok("PATCH", f"{MAPS}/c", {"data": {"b": "x"}}, content_type=MERGE)
    assert changed["data"] == {"a": "2", "b": "x"}
    assert [one["object"]["data"] for one in hook.requests()] == [{"a": "1", "b": "x"}, {"a": "2", "b": "x"}]


async def test_object_that_always_changes_is_a_conflict(api: Any, hook: Any, cluster: EmbeddedCluster) -> None:
    """A write that never finds the object that was reviewed ends."""
    await api.ok("POST", MAPS, config_map(data={"a": "1"}))
    await hook.configure(api, hook.spec())
    map_resource = cluster.resource("v1", "ConfigMap")

    def respond(_: dict[str, Any]) -> dict[str, Any]:
        cluster.registry.update(map_resource, "default", "c", config_map(data={"a": f"x{len(hook.reviews)}"}))
        return {"allowed": True}

    hook.respond = respond
    status, reason, text = await api.refused("PATCH", f"{MAPS}/c", {"data": {"b": "x"}}, content_type=MERGE)
    assert (status, reason) == (409, "Conflict")
    assert text == "the object changed each time while webhooks reviewed it; please try again"


async def test_other_requests_are_answered_meanwhile(api: Any, hook: Any) -> None:
    """A webhook that takes its time holds up only the write that it reviews."""
    await hook.configure(api, hook.spec(objectSelector={"matchLabels": {"slow": "yes"}}))
    hook.delay_seconds = 0.05
    slow = asyncio.ensure_future(api.ok("POST", MAPS, config_map("slow", labels={"slow": "yes"})))
    await hook.called.wait()
    fast = await api.ok("POST", MAPS, config_map("fast"))
    assert not slow.done()
    assert (await slow)["metadata"]["uid"] != fast["metadata"]["uid"]


# --- HTTPS --------------------------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    """Return a file with a certificate for loopback, which signs itself, and its key."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "hook")])
    now = dt.datetime.now(dt.UTC)
    loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - dt.timedelta(days=1))
    builder = builder.not_valid_after(now + dt.timedelta(days=1))
    builder = builder.add_extension(x509.SubjectAlternativeName([loopback]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    form = serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    (tmp_path / "pair.pem").write_bytes(pem + secret)
    return tmp_path / "pair.pem"


@pytest.fixture
def server_tls(pair: Path) -> ssl.SSLContext:
    """Return the TLS context of a server with that certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)
    return context


@pytest.fixture
def bundle(pair: Path) -> str:
    """Return the certificate as a configuration has it."""
    return base64.b64encode(pair.read_bytes().partition(b"-----BEGIN PRIVATE")[0]).decode()


async def test_https(api: Any, tls_hook: Any, bundle: str) -> None:
    """The server trusts the `caBundle` of a webhook, and without one only known authorities."""
    client = {"url": tls_hook.url, "caBundle": bundle}
    await tls_hook.configure(api, tls_hook.spec(clientConfig=client), name="trusted")
    await api.ok("POST", MAPS, config_map())
    assert len(tls_hook.reviews) == 1
    await tls_hook.configure(api, tls_hook.spec(), name="unknown")
    text = (await api.refused("POST", MAPS, config_map("other")))[2]
    assert text.endswith("tls: failed to verify certificate: x509: certificate signed by unknown authority")
