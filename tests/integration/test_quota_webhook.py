"""`pyscheduler webhook` beside `pyscheduler run`: reviews over HTTPS, with the shipped role and no more."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import ssl
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from kube_objects.clock import LoopClock
from kube_testserver.access.rules import compile_rule
from kube_testserver.access.usage import RoleName
from kube_testserver.access.users import ADMIN
from kube_testserver.cluster import EmbeddedCluster
from pyscheduler.podgroup import DIALECTS, kinds_of
from pyscheduler.testing import node_manifest, pod_manifest
from pyscheduler_quota.claims import RESERVED
from tests.deploy.conftest import ROOT
from tests.integration.programs import PATIENCE_SECONDS, Api, Program, program
from tests.serving.pem import Authority

FOLDER = ROOT / "configs/webhook"
NAME = "pyscheduler-webhook"
LABEL = "scheduling.x-k8s.io/pod-group"
NAMESPACED = {"namespace": "default"}


def shipped(kind: str) -> dict[str, Any]:
    """Return the one object of a kind in the manifest."""
    documents = yaml.safe_load_all((FOLDER / "webhook.yaml").read_text(encoding="utf-8"))
    (found,) = [each for each in documents if each["kind"] == kind]
    return found


@attrs.frozen
class Installed:
    """A cluster that goes by roles, with the webhook's account in it, and its certificate."""

    cluster: EmbeddedCluster
    url: str
    authority: Authority
    folder: Path

    def kubeconfig(self, token: str) -> str:
        """Write a kubeconfig with a token."""
        path = self.folder / f"{token[-8:]}.kubeconfig"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "it", "cluster": {"server": self.url}}],
            "users": [{"name": "it", "user": {"token": token}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "current-context": "it",
        }
        path.write_text(json.dumps(content), encoding="utf-8")
        return str(path)

    def webhook(self) -> list[str]:
        """Return the arguments of the Deployment's container, with this machine's files and any port."""
        (container,) = shipped("Deployment")["spec"]["template"]["spec"]["containers"]
        (mount,) = container["volumeMounts"]
        arguments = [each.replace(mount["mountPath"], str(self.folder)) for each in container["args"]]
        arguments = [each for each in arguments if not each.startswith("--secure-port")]
        token = self.cluster.account_token("kube-system", NAME)
        return [*arguments, f"--kubeconfig={self.kubeconfig(token)}", "--secure-port=0", "--bind-address=127.0.0.1"]

    def certify(self, serial: str = "one") -> None:
        """Write a new certificate to the files that the webhook serves."""
        folder = self.folder / serial
        folder.mkdir()
        pair = self.authority.pair(folder, serial, names=["localhost", "127.0.0.1"])
        for source, name in zip(pair, ("tls.crt", "tls.key"), strict=True):
            Path(source).replace(self.folder / name)

    def reserved(self, group: str) -> str | None:
        """Return the annotation of a group."""
        found = self.cluster.get("scheduling.x-k8s.io/v1alpha1", "PodGroup", group, **NAMESPACED)
        text: str | None = found["metadata"].get("annotations", {}).get(RESERVED)
        return text


@pytest.fixture
async def installed(tmp_path: Path) -> AsyncIterator[Installed]:
    """Yield the cluster, served, with a quota of 6 CPUs."""
    cluster = EmbeddedCluster(clock=LoopClock(), rng=random.Random(1), authorization="rbac", tokens={"admin": ADMIN})
    for group in shipped("ClusterRole")["rules"][1]["apiGroups"]:
        cluster.load((ROOT / f"configs/crds/podgroups.{group}.yaml").read_bytes())
    cluster.add(*(shipped(kind) for kind in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")))
    status = {"hard": {"requests.cpu": "6"}, "used": {"requests.cpu": "1"}}
    metadata = {"name": "compute", **NAMESPACED}
    cluster.add({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "status": status})
    server = cluster.server()
    await server.start()
    made = Installed(cluster, server.url, Authority(), tmp_path)
    made.certify()
    yield made
    await server.stop()
    cluster.check_invariants()


class Client:
    """Calls the webhook as the API server does."""

    def __init__(self, port: int, authority: Authority) -> None:
        self._base = f"https://127.0.0.1:{port}"
        self._context = ssl.create_default_context(cadata=authority.pem.decode())

    @classmethod
    async def of(cls, webhook: Program, authority: Authority) -> Client:
        """Return a client once the webhook serves."""
        line = await webhook.said("Serving admission reviews")
        return cls(int(line.rpartition("port=")[2].split()[0]), authority)

    async def ask(self, path: str, body: object = None) -> tuple[int, str]:
        """Return status and text of an answer."""
        return await asyncio.to_thread(self._ask, path, body)

    def _ask(self, path: str, body: object) -> tuple[int, str]:
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data=data, headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS, context=self._context) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    async def review(self, pod: dict[str, Any], **request: Any) -> dict[str, Any]:
        """Return the response to the creation of a pod."""
        asked = {"uid": "r1", "operation": "CREATE", "namespace": "default", "object": pod, **request}
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
        status, text = await self.ask("/validate-pods", body)
        assert status == 200, text
        answer = json.loads(text)
        assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
        response: dict[str, Any] = answer["response"]
        assert response["uid"] == "r1"
        return response

    async def metric(self, name: str) -> float:
        """Return a number of the metrics page."""
        _, text = await self.ask("/metrics")
        (line,) = [each for each in text.splitlines() if each.startswith(f"{name} ")]
        return float(line.rpartition(" ")[2])


def pod(name: str, cpu: str, *, group: str = "", uid: str = "") -> dict[str, Any]:
    """Return a pod as the API server sends it: with its uid."""
    made = pod_manifest(name, requests={"cpu": cpu}, labels={LABEL: group} if group else {})
    made["metadata"] |= {"uid": uid or f"uid-{name}", **NAMESPACED}
    return made


def unused(cluster: EmbeddedCluster) -> list[str]:
    """Return each verb on each resource of the shipped role that allowed nothing so far."""
    rules = [compile_rule(rule) for rule in shipped("ClusterRole")["rules"]]
    return [cell for _, cell in cluster.rbac.usage.unused(RoleName("ClusterRole", "", NAME), rules)]


async def test_pods_that_take_reserved_quota_are_refused_and_everything_else_is_not(installed: Installed) -> None:
    """The scheduler reserves, the webhook refuses; it needs its role, no other permission, and no rule is idle."""
    cluster = installed.cluster
    cluster.add(node_manifest("n1", allocatable={"cpu": "8"}))
    admin = installed.kubeconfig("admin")
    options = ("run", "--config", str(ROOT / "configs/coscheduling.yaml"), "--kubeconfig", admin, "--secure-port=0")
    async with program(*options) as scheduler, program(*installed.webhook()) as webhook:
        await scheduler.said("Successfully acquired lease")
        spec = {"minMember": 2, "minResources": {"cpu": "4"}}
        group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "spec": spec}
        cluster.add({**group, "metadata": {"name": "g", **NAMESPACED}})
        async with asyncio.timeout(PATIENCE_SECONDS):
            while installed.reserved("g") is None:  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.05)
        client = await Client.of(webhook, installed.authority)
        await webhook.said("reserved quota is enforced")
        assert await client.ask("/readyz") == (200, "ok")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (await client.review(pod("large", "3"), dryRun=True))["allowed"]:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.05)
        refused = (await client.review(pod("large", "3")))["status"]
        assert (refused["status"], refused["code"], refused["reason"]) == ("Failure", 403, "Forbidden")
        assert refused["message"] == (
            'pod "large" would take quota that pod groups have reserved: '
            "compute: requests.cpu: requested 3, limit 6, used 1, reserved by groups 4; "
            "retry when these groups have started, or raise the quota"
        )
        for name, cpu, keywords in (("small", "1", {}), ("g-0", "3", {"group": "g"}), ("huge", "9", {})):
            assert (await client.review(pod(name, cpu, **keywords)))["allowed"], name
        assert (await client.review(pod("next", "1")))["allowed"], "none of the pods admitted before was created"
        assert (await client.review(pod("next", "1"), operation="UPDATE"))["allowed"]
        for process in (webhook, scheduler):
            process.send(signal.SIGTERM)
            assert await process.ended() == 0
    account = f"system:serviceaccount:kube-system:{NAME}"
    assert cluster.rbac.usage.refusals(account) == {}
    assert unused(cluster) == []


async def test_it_fails_open_and_counts_that(installed: Installed) -> None:
    """Pods that it cannot read, and bodies that are no reviews: the API server creates such pods."""
    async with program(*installed.webhook()) as webhook:
        client = await Client.of(webhook, installed.authority)
        await webhook.said("reserved quota is enforced")
        broken = pod("broken", "1")
        broken["spec"]["containers"] = 5
        response = await client.review(broken)
        assert response["allowed"]
        assert response["warnings"][0].startswith("reserved quota was not checked: ")
        assert (await client.ask("/validate-pods", b"{"))[0] == 400
        assert (await client.ask("/validate-pods", {"apiVersion": "admission.k8s.io/v1beta1"}))[0] == 400
        assert (await client.ask("/validate-pods"))[0] == 405
        name = 'pyscheduler_quota_webhook_fail_open_total{reason="unreadable"}'
        assert await client.metric(name) == 3
        assert await client.metric('pyscheduler_quota_webhook_requests_total{result="fail_open"}') == 3
        assert await client.metric('pyscheduler_quota_webhook_requests_total{result="allowed"}') == 0


async def test_large_pods_are_checked(installed: Installed) -> None:
    """A pod of 2 MiB, which the API server takes, is checked; a body of 10 MiB is refused and counted."""
    said = json.dumps({"cpu": "4", "pods": "2"})
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
    spec = {"minMember": 2, "minResources": {"cpu": "4"}}
    installed.cluster.add(
        {**group, "spec": spec, "metadata": {"name": "g", "annotations": {RESERVED: said}, **NAMESPACED}}
    )
    async with program(*installed.webhook()) as webhook:
        client = await Client.of(webhook, installed.authority)
        await webhook.said("reserved quota is enforced")
        large = pod("large", "3")
        large["spec"]["containers"][0]["args"] = ["x" * (2 << 20)]
        assert not (await client.review(large))["allowed"]
        assert (await client.ask("/validate-pods", b" " * (10 << 20)))[0] == 413
        assert await client.metric('pyscheduler_quota_webhook_fail_open_total{reason="unreadable"}') == 1


async def test_it_allows_everything_until_its_caches_are_filled(installed: Installed) -> None:
    """It is not ready meanwhile, so that a Service does not send anything either."""
    from kube_testserver.serving.faults import Fault

    fault = Fault(method="GET", path="/resourcequotas", status=500)
    installed.cluster.faults.add(fault)
    async with program(*installed.webhook()) as webhook:
        client = await Client.of(webhook, installed.authority)
        assert (await client.review(pod("p", "3")))["allowed"]
        assert (await client.ask("/readyz"))[0] == 500
        assert (await client.ask("/livez"))[0] == 200
        assert await client.metric('pyscheduler_quota_webhook_fail_open_total{reason="not_synced"}') == 1


async def test_certificate_is_read_again(installed: Installed) -> None:
    """A renewed certificate is shown to new connections without a restart."""
    patch = "from pyscheduler_quota.cli import webhook_server\nwebhook_server._RELOAD_SECONDS = 1.0"
    async with program(*installed.webhook(), patch=patch) as webhook:
        client = await Client.of(webhook, installed.authority)
        assert (await client.ask("/livez"))[0] == 200
        installed.certify("two")
        await webhook.said("Reloaded serving certificate")
        assert (await client.ask("/livez"))[0] == 200


async def test_mistakes_are_one_line(installed: Installed) -> None:
    """A missing file, and a role that lacks a permission."""
    arguments = installed.webhook()
    async with program(*(each.replace("tls.key", "none.key") for each in arguments)) as webhook:
        assert await webhook.ended() == 1
    assert [line for line in webhook.err if line.startswith("error: --tls-private-key-file: ")]
    rules = [rule for rule in shipped("ClusterRole")["rules"] if "pods" not in rule["resources"]]
    api = Api(installed.url, token="admin")
    role = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{NAME}"
    body = {**shipped("ClusterRole"), "rules": rules}
    assert (await api("PUT", role, body))[0] == 200
    async with program(*arguments) as webhook:
        assert await webhook.ended() == 1
    (error,) = [line for line in webhook.err if line.startswith("error: ")]
    assert "cannot list resource" in error
    assert error.endswith("grant it (configs/webhook/webhook.yaml has the rules)")


def test_manifest_fits_the_command() -> None:
    """Failure policy, path, ports, probes and the kinds of the role."""
    (hook,) = shipped("ValidatingWebhookConfiguration")["webhooks"]
    assert (hook["failurePolicy"], hook["sideEffects"]) == ("Ignore", "None")
    assert hook["clientConfig"]["service"]["path"] == "/validate-pods"
    assert hook["clientConfig"]["service"]["name"] == shipped("Service")["metadata"]["name"] == NAME
    container = shipped("Deployment")["spec"]["template"]["spec"]["containers"][0]
    (port,) = container["ports"]
    assert f"--secure-port={port['containerPort']}" in container["args"]
    assert shipped("Service")["spec"]["ports"][0]["targetPort"] == port["name"]
    selector = shipped("Service")["spec"]["selector"]
    assert selector == shipped("Deployment")["spec"]["template"]["metadata"]["labels"]
    kinds = kinds_of(dialect for dialect in DIALECTS if dialect.declares_resources)
    (groups,) = [rule["apiGroups"] for rule in shipped("ClusterRole")["rules"] if rule["resources"] == ["podgroups"]]
    assert groups == sorted({kind.group for kind in kinds})
    documents = [*yaml.safe_load_all((FOLDER / "certificate.yaml").read_text(encoding="utf-8"))]
    (certificate,) = [each for each in documents if each["kind"] == "Certificate"]
    (volume,) = shipped("Deployment")["spec"]["template"]["spec"]["volumes"]
    assert certificate["spec"]["secretName"] == volume["secret"]["secretName"]
    assert certificate["spec"]["dnsNames"][0] == f"{NAME}.kube-system.svc"
    annotation = shipped("ValidatingWebhookConfiguration")["metadata"]["annotations"]
    assert annotation["cert-manager.io/inject-ca-from"] == f"kube-system/{certificate['metadata']['name']}"
