"""Build the KubeSchedulerConfiguration and the command-line flags with which a scenario runs the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import yaml

from pyscheduler.config.feature_gates import parse
from pyscheduler.framework.errors import ConfigError
from pyscheduler.scheduler.assembly import Settings
from pyscheduler_lab.simulation.group_objects import default_dialect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.runtime.assembly.registry import Registry
    from pyscheduler_lab.simulation.scenario import ProfileSpec, Scenario

__all__ = ["SCHEDULER_NAME", "ScenarioConfig", "configure"]

#: The schedulerName of all pods of a scenario.
SCHEDULER_NAME: Final = "pyscheduler"

#: Plugins and queue orders by their short names in scenario files.
_PLUGINS: Final = {"coscheduling": "Coscheduling", "gang": "Gang", "intree": "GangScheduling"}
_QUEUE_SORTS: Final = {"coscheduling": "Coscheduling", "gang": "GangSort", "priority": "PrioritySort"}


@attrs.frozen(kw_only=True)
class ScenarioConfig:
    """The configuration of a scenario."""

    #: A KubeSchedulerConfiguration, as YAML.
    text: str
    #: As for `--feature-gates`.
    gates: str
    settings: Settings
    #: Names of the enabled plugins that are not default plugins.
    plugins: Sequence[str]
    #: The dialect of groups whose step names none.
    dialect: str

    @property
    def document(self) -> str:
        """Return the configuration with the settings of the process as comments."""
        settings = self.settings
        limit = settings.permit_wait_limit_seconds
        return (
            f"# --feature-gates={self.gates}\n"
            f"# pods stay unschedulable for at most {settings.max_unschedulable_seconds:g} s;"
            f" waits at Permit are {'not limited' if limit in {None, float('inf')} else f'cut to {limit:g} s'}\n"
            f"{self.text}"
        )

    def check(self, registry: Registry) -> None:
        """Raise `ConfigError` for each plugin that is not installed."""
        missing = [name for name in self.plugins if name not in registry]
        if missing:
            raise ConfigError(*(f'plugin "{name}" is not installed' for name in missing))


def configure(scenario: Scenario, profile: ProfileSpec) -> ScenarioConfig:
    """Return the configuration of a scenario on a profile."""
    plugins = [_PLUGINS[word] for word in profile.plugins]
    queue_sort = _QUEUE_SORTS[profile.queue_sort]
    args: dict[str, dict[str, Any]] = {}
    for given in (profile.args, scenario.args):
        for word, values in given.items():
            args.setdefault(_PLUGINS[word], {}).update(values)
    if queue_sort == "GangSort":
        args["GangSort"] = {"order": "gang"}
    points: dict[str, Any] = {
        "multiPoint": {"enabled": [{"name": name} for name in plugins]},
        "queueSort": {"enabled": [{"name": queue_sort}], "disabled": [{"name": "*"}]},
    }
    for disable in (profile.disable, scenario.disable):
        for word, where in disable.items():
            for point in where:
                points.setdefault(str(point), {}).setdefault("disabled", []).append({"name": _PLUGINS[word]})
    options = scenario.options
    if not options.preemption:
        points["multiPoint"]["disabled"] = [{"name": "DefaultPreemption"}]
    body = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        # No client-side rate limit: the API server is in the same process.
        "clientConnection": {"qps": -1},
        "podInitialBackoffSeconds": options.pod_initial_backoff_seconds,
        "podMaxBackoffSeconds": options.pod_max_backoff_seconds,
        "profiles": [
            {
                "schedulerName": SCHEDULER_NAME,
                "plugins": points,
                "pluginConfig": [{"name": name, "args": values} for name, values in args.items()],
            }
        ],
    }
    gates = {"SchedulerPopFromBackoffQ": options.pop_from_backoff_q}
    if "intree" in profile.plugins:
        gates |= {"GenericWorkload": True, "GangScheduling": True}
    text = ",".join(f"{name}={str(value).lower()}" for name, value in gates.items())
    limit = options.permit_max_seconds
    return ScenarioConfig(
        text=yaml.safe_dump(body, sort_keys=False),
        gates=text,
        settings=Settings(
            feature_gates=parse(text),
            max_unschedulable_seconds=options.unschedulable_flush_seconds,
            permit_wait_limit_seconds=float("inf") if limit is None else limit,
        ),
        plugins=list(dict.fromkeys([*plugins, queue_sort])),
        dialect=default_dialect(plugins),
    )
