"""Describe the volume claims and resource claims of a pod for `explain`: what each asks for, and whether it exists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_objects.claims import claims_of
from pyscheduler.api import PersistentVolumeClaim, ResourceClaim, ResourceClaimTemplate, kind_of
from pyscheduler.cli.claim_templates import TEMPLATES
from pyscheduler.cluster.kinds_within import within

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyscheduler.api import KubeObject, Pod, ResourceKind
    from pyscheduler.cluster.object_sources import Read

__all__ = ["claim_facts"]

_VOLUMES: Final = kind_of(PersistentVolumeClaim, "persistentvolumeclaims")
_CLAIMS: Final = kind_of(ResourceClaim, "resourceclaims")


async def claim_facts(pod: Pod, read: Read, unread: Sequence[str]) -> list[str]:
    """Return a text for the volume claims of a pod, and one for its resource claims; none if it has none.

    `unread` grows by the resources that `read` may not list. Of these, only the names are known.
    """

    async def facts(kind: ResourceKind) -> Callable[[str], str]:
        """Return a function that describes the object of a name."""
        found = {each.name: _described(each) for each in await read(within(kind, pod.namespace))}
        unknown = "" if kind.resource in unread else "does not exist"

        def described(name: str) -> str:
            text = found.get(name, unknown)
            return f"{name} ({text})" if text else name

        return described

    texts = []
    volumes = [each.name for each in claims_of(pod)]
    if volumes:
        texts.append(f"PersistentVolumeClaims {', '.join(map(await facts(_VOLUMES), volumes))}")
    if pod.spec.resource_claims:
        claim, template = await facts(_CLAIMS), await facts(TEMPLATES)
        made = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
        parts = []
        for each in pod.spec.resource_claims:
            name = each.resource_claim_name or made.get(each.name)
            parts.append(claim(name) if name else f"of template {template(each.resource_claim_template_name or '')}")
        texts.append(f"ResourceClaims {', '.join(parts)}")
    return texts


def _described(item: KubeObject) -> str:
    if isinstance(item, PersistentVolumeClaim):
        size, name = item.spec.resources.requests.get("storage", ""), item.spec.storage_class_name
        kind = "the default class" if name is None else f"class {name}" if name else "no class"
        return ", ".join(filter(None, [str(size), kind, item.status.phase]))
    if isinstance(item, ResourceClaim):
        devices, state = item.spec.devices, "allocated" if item.status.allocation is not None else "not allocated"
    elif isinstance(item, ResourceClaimTemplate):
        devices, state = item.spec.spec.devices, ""
    else:
        return ""
    parts = []
    for request in devices.requests:
        ways = [request.exactly] if request.exactly is not None else request.first_available
        texts = [
            f"{each.count or 1 if each.allocation_mode != 'All' else 'all'} of {each.device_class_name}"
            for each in ways
        ]
        parts.append(" or ".join(texts))
    return ", ".join(filter(None, [*parts, state]))
