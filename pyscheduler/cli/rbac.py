"""`pyscheduler config --rbac`: print Roles and ClusterRoles with only the permissions that a configuration needs.

The modules that send requests declare the permissions. This module collects them.
Source: kube-scheduler's bootstrap roles, `plugin/pkg/auth/authorizer/rbac/bootstrappolicy`.
"""

from __future__ import annotations

from textwrap import indent
from typing import TYPE_CHECKING, Any, Final

import yaml

from pyscheduler.cluster.real import event_writer, lease_keeper
from pyscheduler.framework.errors import ConfigError
from pyscheduler.runtime.assembly.permissions import Need, merged
from pyscheduler.serving import delegation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyscheduler.config.types import Configuration
    from pyscheduler.runtime.assembly.permissions import Grant
    from pyscheduler.scheduler.scheduler import Scheduler

__all__ = ["as_helm_values", "as_list", "as_yaml", "grants_of", "parse_account"]

_GROUP: Final = "rbac.authorization.k8s.io"
_API_VERSION: Final = f"{_GROUP}/v1"


def grants_of(
    scheduler: Scheduler, config: Configuration, *, delegated_auth: bool = True, elects: bool | None = None
) -> Mapping[str, Sequence[Grant]]:
    """Return the permissions that `run` needs, by namespace; `""` is the cluster.

    `elects` says whether those for the lease are among them (None: as in the file).
    """
    needs = [*scheduler.needs(), *(Need(rule, "events") for rule in event_writer.RULES)]
    if delegated_auth:
        needs += [Need(rule, "the HTTPS port") for rule in delegation.RULES]
    if config.leader_election.leader_elect if elects is None else elects:
        needs += [Need(rule, "leader election") for rule in lease_keeper.rules_for(config.leader_election)]
    return merged(needs)


def parse_account(text: str) -> tuple[str, str]:
    """Return namespace and name of `NAMESPACE:NAME`, kubectl's form for service accounts; raise `ConfigError`."""
    namespace, _, name = text.partition(":")
    if not (namespace and name) or ":" in name:
        raise ConfigError(f'--service-account "{text}" must be NAMESPACE:NAME, such as kube-system:pyscheduler')
    return namespace, name


def as_list(
    grants: Mapping[str, Sequence[Grant]], *, name: str, account: tuple[str, str] | None = None
) -> dict[str, Any]:
    """Return the manifests as one `List`, for `-o json`."""
    return {"apiVersion": "v1", "kind": "List", "items": [found for found, _ in _manifests(grants, name, account)]}


def as_yaml(
    grants: Mapping[str, Sequence[Grant]], *, name: str, account: tuple[str, str] | None = None, made_by: str
) -> str:
    """Return the manifests as YAML documents with a comment for each rule; `made_by` is the command."""
    documents = []
    for manifest, rules in _manifests(grants, name, account):
        text = _yaml({key: value for key, value in manifest.items() if key != "rules"})
        if rules:
            text += f"rules:\n{indent(_rules(rules), '  ')}"
        documents.append(text)
    return _head(made_by) + "---\n".join(documents)


def as_helm_values(grants: Mapping[str, Sequence[Grant]], *, config: str, feature_gates: str, made_by: str) -> str:
    """Return values of the chart `deploy/helm/pyscheduler`: a configuration's text, and what it needs.

    `grants` are without those for the lease, whose name the chart chooses; `feature_gates` are as on the command line.
    """
    # Without the number, the first line decides how far the text is indented.
    style = "|2" if config[:1].isspace() else "|"
    text = f"{_head(made_by)}config: {style}\n{indent(config.rstrip(), '  ')}\n"
    text += _yaml({"featureGates": feature_gates})
    text += f"rbac:\n  clusterRules:\n{indent(_rules(grants.get('', ())), '    ')}"
    named = {namespace: rules for namespace, rules in grants.items() if namespace}
    text += "  namespaceRules:\n" if named else "  namespaceRules: {}\n"
    return text + "".join(f"    {name}:\n{indent(_rules(rules), '      ')}" for name, rules in named.items())


def _head(made_by: str) -> str:
    return (
        f"# Made by: {made_by}\n# The comment above each rule names who needs it. Do not edit; run the command again.\n"
    )


def _rules(grants: Sequence[Grant]) -> str:
    """Return the rules as the items of a YAML list, each below a comment that names who needs it."""
    return "".join(f"# for {', '.join(grant.who)}\n{_yaml([_rule(grant)])}" for grant in grants)


def _manifests(
    grants: Mapping[str, Sequence[Grant]], name: str, account: tuple[str, str] | None
) -> Iterator[tuple[dict[str, Any], Sequence[Grant]]]:
    """Yield each role and, with an account, its binding."""
    for namespace, rules in grants.items():
        place = {"namespace": namespace} if namespace else {}
        kind = "Role" if namespace else "ClusterRole"
        metadata = {"name": name, **place}
        role = {"apiVersion": _API_VERSION, "kind": kind, "metadata": metadata}
        yield role | {"rules": [_rule(grant) for grant in rules]}, rules
        if account is not None:
            yield (
                {
                    "apiVersion": _API_VERSION,
                    "kind": f"{kind}Binding",
                    "metadata": metadata,
                    "roleRef": {"apiGroup": _GROUP, "kind": kind, "name": name},
                    "subjects": [{"kind": "ServiceAccount", "name": account[1], "namespace": account[0]}],
                },
                (),
            )


def _rule(grant: Grant) -> dict[str, Any]:
    names = {"resourceNames": list(grant.names)} if grant.names else {}
    return {"apiGroups": [grant.group], "resources": [grant.resource], **names, "verbs": list(grant.verbs)}


def _yaml(data: object) -> str:
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False)


class _Dumper(yaml.SafeDumper):
    """Writes short lists on one line, and writes repeated values in full."""

    def ignore_aliases(self, data: object) -> bool:
        """Return True, so that no YAML aliases are written."""
        return True


def _represent_list(dumper: _Dumper, data: list[Any]) -> yaml.Node:
    plain = all(isinstance(item, str) for item in data)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=plain)


_Dumper.add_representer(list, _represent_list)
