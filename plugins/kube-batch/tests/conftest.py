"""The fixtures of batch clusters."""

from pyscheduler_lab.testing import kube_batch

__all__ = ["kube_batch"]
