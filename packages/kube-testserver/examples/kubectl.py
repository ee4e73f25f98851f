"""Use kubectl with the test server: define a kind, scale and list its objects, and get a service account's token."""

from __future__ import annotations

import subprocess

from kube_testserver import TestServer

MANIFESTS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: databases.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: databases, singular: database, kind: Database, shortNames: [db]}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
      additionalPrinterColumns:
        - {name: Engine, type: string, jsonPath: .spec.engine}
        - {name: Replicas, type: integer, jsonPath: .spec.replicas}
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                engine: {type: string, enum: [postgres, mysql], default: postgres}
                replicas: {type: integer, minimum: 1, maximum: 5, default: 1}
            status: {type: object, properties: {replicas: {type: integer}}}
"""
DATABASE = """
apiVersion: example.com/v1
kind: Database
metadata: {name: orders}
spec: {replicas: REPLICAS}
"""


def main(server: TestServer) -> None:
    """Run kubectl commands, and print what they print."""

    def kubectl(*arguments: str, stdin: str = "") -> str:
        command = ["kubectl", "--kubeconfig", server.kubeconfig, *arguments]
        done = subprocess.run(command, input=stdin, text=True, capture_output=True, timeout=60, check=False)
        return (done.stdout or done.stderr).strip()

    print(kubectl("apply", "-f", "-", stdin=MANIFESTS))
    kubectl("wait", "--for=condition=Established", "crd/databases.example.com")
    print(kubectl("apply", "-f", "-", stdin=DATABASE.replace("REPLICAS", "2")))
    print(kubectl("apply", "-f", "-", stdin=DATABASE.replace("REPLICAS", "9")))
    print(kubectl("scale", "db/orders", "--replicas=3"))
    print(kubectl("get", "db"))

    kubectl("create", "rolebinding", "readers", "--clusterrole=view", "--serviceaccount=default:default")
    token = kubectl("create", "token", "default")
    print(kubectl("--token", token, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"))


if __name__ == "__main__":
    with TestServer(tls=True, authorization="rbac") as test_server:
        main(test_server)
