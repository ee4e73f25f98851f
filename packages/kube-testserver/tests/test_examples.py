"""The examples: each runs as its users run it, as a process of its own, and prints what it says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kube_testserver import TestServer

EXAMPLES = Path(__file__).parents[1] / "examples"
#: Ends what hangs; on a busy machine the start of an interpreter alone takes seconds.
PATIENCE_SECONDS = 120.0

TOO_MANY = (
    'The Database "orders" is invalid: '
    "spec.replicas: Invalid value: 9: spec.replicas in body should be less than or equal to 5"
)

pytestmark = pytest.mark.slow


def output_of(name: str) -> list[str]:
    """Run an example; return the lines that it prints, with single spaces."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / name], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [" ".join(line.split()) for line in done.stdout.splitlines()]


def wait_until(condition: Callable[[], bool]) -> None:
    """Return when the condition holds."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_official_client() -> None:
    """A Deployment's pods run, get a new image, and are deleted with it; the client follows by watches."""
    pytest.importorskip("kubernetes")
    assert output_of("official_client.py") == ["2 pods run", "3 pods run the new image", "0 pods are left"]


def test_kr8s() -> None:
    """A Deployment gets ready, scales, and is deleted with its pods."""
    pytest.importorskip("kr8s")
    assert output_of("kr8s_client.py") == ["1 pod runs", "3 pods run", "0 pods are left"]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on this machine: its example did not run")
def test_kubectl() -> None:
    """A definition's schema, columns and scale work, over HTTPS and as an administrator; an account gets a token."""
    pytest.importorskip("trustme")
    assert output_of("kubectl.py") == [
        "customresourcedefinition.apiextensions.k8s.io/databases.example.com created",
        "database.example.com/orders created",
        TOO_MANY,
        "database.example.com/orders scaled",
        "NAME ENGINE REPLICAS",
        "orders postgres 3",
        "system:serviceaccount:default:default",
    ]


def test_kopf(tmp_path: Path) -> None:
    """An operator in a process of its own creates, updates and deletes a ConfigMap, with handlers and a finalizer."""
    pytest.importorskip("kopf")
    pytest.importorskip("kubernetes")
    log = tmp_path / "log"
    with TestServer(load=[EXAMPLES / "greetings.yaml"]) as server, log.open("w") as output:
        operator = subprocess.Popen(
            [sys.executable, "-m", "kopf", "run", "--all-namespaces", "--standalone", EXAMPLES / "kopf_operator.py"],
            env=os.environ | {"KUBECONFIG": server.kubeconfig},
            stderr=output,
        )
        try:
            follow_operator(server)
        except BaseException:
            sys.stderr.write(log.read_text())
            raise
        finally:
            operator.terminate()
            assert operator.wait(PATIENCE_SECONDS) == 0


def follow_operator(server: TestServer) -> None:
    """Take a custom resource through its life, and check what the operator does."""
    from kubernetes import client, config

    def find(api_version: str, kind: str) -> dict[str, Any]:
        return next(iter(server.objects(api_version, kind, namespace="default")), {})

    kind = ("example.com/v1", "Greeting")
    server.add({"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": "hi"}, "spec": {"text": "Hello"}})
    wait_until(lambda: find(*kind).get("status") == {"shown": "Hello"})
    assert find("v1", "ConfigMap")["data"] == {"text": "Hello"}
    assert find(*kind)["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]

    place = ("example.com", "v1", "default", "greetings", "hi")
    with config.new_client_from_config(server.kubeconfig) as api_client:
        resources = client.CustomObjectsApi(api_client)
        with pytest.raises(client.ApiException, match="Too long: may not be more than 20 bytes"):
            resources.patch_namespaced_custom_object(*place, {"spec": {"text": "Good morning to you all"}})
        resources.patch_namespaced_custom_object(*place, {"spec": {"text": "Good bye"}})
        wait_until(lambda: find(*kind)["status"] == {"shown": "Good bye"})
        assert find("v1", "ConfigMap")["data"] == {"text": "Good bye"}

        resources.delete_namespaced_custom_object(*place)
    wait_until(lambda: not find(*kind))
    assert not find("v1", "ConfigMap")
