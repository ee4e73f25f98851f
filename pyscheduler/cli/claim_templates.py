"""For `pyscheduler explain POD`: check that the ResourceClaimTemplates for the pod's missing ResourceClaims exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.api import ResourceClaimTemplate, kind_of
from pyscheduler.cli.explanation import INFO, Step

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyscheduler.api import Pod
    from pyscheduler.cluster.object_sources import Read

__all__ = ["TEMPLATES", "template_steps"]

TEMPLATES: Final = kind_of(ResourceClaimTemplate, "resourceclaimtemplates")


async def template_steps(pod: Pod, read: Read, unread: Collection[str]) -> tuple[list[Step], str]:
    """Return a step for the claims of a pod that are not made yet, and what to create; [] and "" without them.

    `unread` has the resources that may not be listed.
    """
    made = {each.name for each in pod.status.resource_claim_statuses}
    wanted = [each for each in pod.spec.resource_claims if each.resource_claim_template_name and each.name not in made]
    if not wanted:
        return [], ""
    known = {each.key for each in await read(TEMPLATES)}
    is_known = TEMPLATES.resource not in unread
    texts, missing = [], []
    for each in wanted:
        key = f"{pod.namespace}/{each.resource_claim_template_name}"
        text = f"claim {each.name} is to be made from the ResourceClaimTemplate {key}"
        if is_known and key not in known:
            missing.append(key)
            text += ", which does not exist"
        texts.append(text)
    create = f"create the ResourceClaimTemplate {', '.join(dict.fromkeys(missing))}" if missing else ""
    return [Step("claims", INFO, "", "; ".join(texts))], create
