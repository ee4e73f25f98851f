"""`pyscheduler cluster`: serve an embedded API server, with the options of the command `kube-testserver`."""

from __future__ import annotations

from typing import Any

import click

from kube_testserver.command import serve, serving_options
from pyscheduler.cli.shared_options import logging_options

__all__ = ["command"]


@click.command("cluster")
@serving_options
@logging_options()
def command(feature_gates: str, **options: Any) -> None:
    """Serve an embedded Kubernetes API server, in memory, with the kinds that a scheduler needs.

    \b
    Try it:
      pyscheduler cluster --write-kubeconfig embedded.yaml &
      kubectl --kubeconfig embedded.yaml get nodes
      pyscheduler run --kubeconfig embedded.yaml

    With --authorization rbac or --token-auth-file, the kubeconfig has the token of an administrator. With one of them
    and without --write-kubeconfig, the second line of the output is this token.
    """
    from pyscheduler.config.feature_gates import parse

    serve(pod_groups=parse(feature_gates)["GenericWorkload"], **options)
