"""The official Python client: create a Deployment, wait for its pods with a watch, patch and delete the Deployment."""

from __future__ import annotations

from kubernetes import client, config, watch

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
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            # No scheduler runs in the test server: the template names the node.
            "spec": {"nodeName": "node-1", "containers": [{"name": "web", "image": "nginx:1.29"}]},
        },
    },
}


def wait_for_running_pods(core: client.CoreV1Api, image: str, count: int) -> None:
    """Return when so many pods with this image run."""
    running = set()
    watcher = watch.Watch()
    for event in watcher.stream(core.list_namespaced_pod, "default", label_selector="app=web", timeout_seconds=60):
        pod = event["object"]
        if pod.status.phase == "Running" and pod.spec.containers[0].image == image:
            running.add(pod.metadata.name)
        if len(running) == count:
            return
    raise TimeoutError(f"only {len(running)} pods with image {image} run")


def main(server: TestServer) -> None:
    """Take a Deployment through its life."""
    with config.new_client_from_config(server.kubeconfig) as api_client:
        apps, core = client.AppsV1Api(api_client), client.CoreV1Api(api_client)
        core.create_node(NODE)
        apps.create_namespaced_deployment("default", DEPLOYMENT)
        wait_for_running_pods(core, "nginx:1.29", 2)
        print("2 pods run")

        container = {"name": "web", "image": "nginx:1.30"}
        patch = {"spec": {"replicas": 3, "template": {"spec": {"containers": [container]}}}}
        apps.patch_namespaced_deployment("web", "default", patch)
        wait_for_running_pods(core, "nginx:1.30", 3)
        print("3 pods run the new image")

        pods = core.list_namespaced_pod("default")
        left = {pod.metadata.name for pod in pods.items}
        apps.delete_namespaced_deployment("web", "default")
        since = pods.metadata.resource_version  # so that no deletion is missed
        for event in watch.Watch().stream(
            core.list_namespaced_pod, "default", resource_version=since, timeout_seconds=60
        ):
            if event["type"] == "DELETED":
                left.discard(event["object"].metadata.name)
            if not left:
                break
        print(len(left), "pods are left")


if __name__ == "__main__":
    with TestServer() as test_server:
        main(test_server)
