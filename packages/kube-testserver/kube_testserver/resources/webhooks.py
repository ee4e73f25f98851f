"""The test server's resources for configurations of admission webhooks."""

from __future__ import annotations

import functools
from typing import Final

from kube_testserver.resources.table import Resource

__all__ = ["MUTATING_WEBHOOKS", "VALIDATING_WEBHOOKS", "WEBHOOK_GROUP"]

WEBHOOK_GROUP: Final = "admissionregistration.k8s.io"

_configuration: Final = functools.partial(
    Resource, WEBHOOK_GROUP, "v1", namespaced=False, categories=("api-extensions",)
)

MUTATING_WEBHOOKS: Final = _configuration("mutatingwebhookconfigurations", "MutatingWebhookConfiguration")
VALIDATING_WEBHOOKS: Final = _configuration("validatingwebhookconfigurations", "ValidatingWebhookConfiguration")
