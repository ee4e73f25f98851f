"""The fixtures of batch clusters."""

from plugins.batch.tests.conftest import kube_batch

__all__ = ["kube_batch"]
