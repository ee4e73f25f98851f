"""An operator written with kopf: each Greeting gets a ConfigMap, which is deleted with the Greeting.

`greetings.yaml` defines the kind Greeting. Set KUBECONFIG and run `kopf run --all-namespaces kopf_operator.py`.
"""

from __future__ import annotations

import os
from typing import Any

import kopf
from kubernetes import client, config


@kopf.on.login()
def login(**arguments: Any) -> kopf.ConnectionInfo | None:
    """Use the kubeconfig that the environment names now; the official client looks only when it is imported."""
    config.load_kube_config(os.environ["KUBECONFIG"])
    return kopf.login_with_kubeconfig(**arguments)


@kopf.on.create("example.com", "v1", "greetings")
def create(name: str, namespace: str | None, spec: kopf.Spec, patch: kopf.Patch, **_: Any) -> None:
    """Create the ConfigMap, and report it in the status."""
    body = {"metadata": {"name": name}, "data": {"text": spec["text"]}}
    client.CoreV1Api().create_namespaced_config_map(namespace, body)
    patch.status["shown"] = spec["text"]


@kopf.on.update("example.com", "v1", "greetings", field="spec.text")
def update(name: str, namespace: str | None, new: Any, patch: kopf.Patch, **_: Any) -> None:
    """Show the new text."""
    client.CoreV1Api().patch_namespaced_config_map(name, namespace, {"data": {"text": new}})
    patch.status["shown"] = new


@kopf.on.delete("example.com", "v1", "greetings")
def delete(name: str, namespace: str | None, **_: Any) -> None:
    """Delete the ConfigMap. kopf keeps a finalizer on the Greeting until this handler has returned."""
    client.CoreV1Api().delete_namespaced_config_map(name, namespace)
