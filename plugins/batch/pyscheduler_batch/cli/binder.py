"""`pyscheduler binder`: bind the pods for which a scheduler has written BindRequests, a kind of KAI-Scheduler."""

from __future__ import annotations

from typing import Any, Final

import click

from pyscheduler.cli.run import run_program
from pyscheduler.flags.declaration import FlagCommand
from pyscheduler.flags.run_flags import all_options

__all__ = ["CONFIGURATION", "command"]

#: As `configs/binder.yaml`. The profile has no Bind plugin: it only carries the reconciler, and schedules no pod.
CONFIGURATION: Final = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  qps: 5000
  burst: 10000
leaderElection:
  leaderElect: true
  resourceName: pyscheduler-binder
profiles:
  - schedulerName: pyscheduler-binder
    plugins:
      multiPoint:
        enabled:
          - name: BindRequestReconciler
          - name: PrioritySort
        disabled:
          - name: "*"
"""


@click.command("binder", cls=FlagCommand, params=[*all_options()])
def command(**parameters: Any) -> None:
    """Bind the pods of BindRequests, which a scheduler with `binder: bindRequest` writes.

    The flags are those of `pyscheduler run`, with the same meaning. Without --config, the lease is named
    pyscheduler-binder. Of several replicas, one works. A scheduler that has the plugin BindRequestReconciler in its
    profile needs no binder. Where KAI is installed, its binder does the same.

    \b
    Example:
      kubectl apply -f configs/crds/bindrequests.scheduling.run.ai.yaml
      pyscheduler binder --kubeconfig ~/.kube/config
    """
    run_program(parameters, CONFIGURATION)
