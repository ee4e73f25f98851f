"""The client kr8s: create a Deployment, wait for it, scale it and delete it."""

from __future__ import annotations

import time

import kr8s
from kr8s.objects import Deployment, Node

from kube_testserver import TestServer

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node-1"},
    "status": {"capacity": {"cpu": "4", "pods": "110"}},
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            # No scheduler runs in the test server: the template names the node.
            "spec": {"nodeName": "node-1", "containers": [{"name": "web", "image": "nginx:1.29"}]},
        },
    },
}


def main(server: TestServer) -> None:
    """Take a Deployment through its life."""
    api = kr8s.api(kubeconfig=server.kubeconfig)
    Node(NODE, api=api).create()
    deployment = Deployment(DEPLOYMENT, api=api)
    deployment.create()
    deployment.wait("condition=Available")
    print(len(deployment.pods()), "pod runs")

    deployment.scale(3)
    while not deployment.ready():
        time.sleep(0.05)
    print(len(deployment.pods()), "pods run")

    deployment.delete(propagation_policy="Foreground")
    deployment.wait("delete")
    print(len(list(api.get("pods", namespace="default"))), "pods are left")


if __name__ == "__main__":
    with TestServer() as test_server:
        main(test_server)
