"""Generate the alert rules and dashboards as files of the Helm chart."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from deploy.monitoring.dashboards import DASHBOARDS
from deploy.monitoring.rules import RULES, rules_text

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FOLDER", "generated"]

#: Where the chart looks for them.
FOLDER: Final = Path(__file__).parents[1] / "helm" / "pyscheduler" / "files"


def generated() -> Mapping[str, str]:
    """Return the text of each file; names are relative to `FOLDER`."""
    dashboards = {f"dashboards/{each.name}.json": each.text() for each in DASHBOARDS}
    return {"rules.yaml": rules_text(RULES), **dashboards}
