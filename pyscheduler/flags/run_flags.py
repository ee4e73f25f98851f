"""The flags of `pyscheduler run`: those of kube-scheduler 1.36, and a few more.

Differs from kube-scheduler: some defaults, such as the name of the lease (`pyscheduler`).

Source: cmd/kube-scheduler/app/options, with the options of apiserver and component-base that it includes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from pyscheduler.flags import declaration
from pyscheduler.flags.declaration import (
    ADDRESS,
    BOOL,
    DURATION,
    FILE,
    FLOAT,
    INT,
    INT32,
    LEVEL,
    LIST,
    MAP,
    NAMED_PAIRS,
    TEXT,
    TEXTS,
    VMODULE,
    flag,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyscheduler.flags.go_values import NamedPair

__all__ = [
    "AuthenticationFlags",
    "AuthorizationFlags",
    "DeprecatedFlags",
    "FeatureGateFlags",
    "Flags",
    "GlobalFlags",
    "LeaderElectionFlags",
    "LogFlags",
    "MainFlags",
    "MetricsFlags",
    "OwnFlags",
    "SecureServingFlags",
    "all_options",
]

_NO_HEADERS: Final = "Accepted without effect."
_NO_BUFFER: Final = "Refused except for 0: every line is written at once."


@attrs.frozen(kw_only=True)
class MainFlags:
    """Configuration file and cluster."""

    config: str = flag(
        "",
        FILE,
        "KubeSchedulerConfiguration file (kubescheduler.config.k8s.io/v1), as for kube-scheduler. Without it there is "
        "a single profile named 'pyscheduler' with the default plugins.",
    )
    kubeconfig: str = flag(
        "",
        FILE,
        "Kubeconfig of the cluster; overrides the one in the configuration file. "
        "Default: $KUBECONFIG, the pod's service account, or ~/.kube/config.",
    )
    master: str = flag("", TEXT, "Address of the API server; overrides the kubeconfig's.", metavar="URL")
    write_config_to: str = flag("", FILE, "Write the effective configuration to this file and exit.")


@attrs.frozen(kw_only=True)
class OwnFlags:
    """Flags that kube-scheduler does not have."""

    health_port: int = flag(
        0,
        INT,
        "Port for /healthz, /livez, /readyz, /metrics and /configz over plain HTTP, without authentication; 0 opens no "
        "port. The address is 127.0.0.1 unless --bind-address is given.",
        metavar="PORT",
    )
    seed: int | None = flag(None, INT, "Seed of the choice among nodes with equal scores (default: random).")
    blocked: tuple[str, ...] = flag(
        (),
        TEXTS,
        "Ignore the plugins of this distribution or entry point, as if it were not installed; repeatable.",
        name="block",
    )
    reload: bool = flag(
        False, BOOL, "For development: restart the scheduler when a Python file outside of site-packages changes."
    )


@attrs.frozen(kw_only=True)
class LeaderElectionFlags:
    """Leader election among replicas; the flags override the configuration file. Times in seconds."""

    leader_elect: bool = flag(
        True, BOOL, "Schedule only while holding a Lease, so that other replicas can stand by; overrides the file."
    )
    lease_duration_seconds: float = flag(
        15.0,
        DURATION,
        "How long a standby waits after the last renewal that it saw before it takes the lease.",
        name="leader-elect-lease-duration",
    )
    renew_deadline_seconds: float = flag(
        10.0,
        DURATION,
        "How long the leader tries to renew the lease before it gives up; less than the lease duration.",
        name="leader-elect-renew-deadline",
    )
    retry_period_seconds: float = flag(
        2.0, DURATION, "Time between two attempts to take or renew the lease.", name="leader-elect-retry-period"
    )
    resource_lock: str = flag(
        "leases", TEXT, "Kind of the lock object; only 'leases' is supported.", name="leader-elect-resource-lock"
    )
    resource_name: str = flag("pyscheduler", TEXT, "Name of the Lease.", name="leader-elect-resource-name")
    resource_namespace: str = flag(
        "kube-system", TEXT, "Namespace of the Lease.", name="leader-elect-resource-namespace"
    )


@attrs.frozen(kw_only=True)
class FeatureGateFlags:
    """Feature gates and versions."""

    feature_gates: tuple[str, ...] = flag(
        (),
        TEXTS,
        "Set kube-scheduler's feature gates, with or without the prefix 'kube:'; the defaults are those of Kubernetes "
        "1.36. Repeatable.",
        metavar="A=true,B=false",
    )
    emulated_version: tuple[str, ...] = flag(
        (), LIST, "Version whose behavior is emulated; only 1.36 is supported.", metavar="[kube=]1.36"
    )
    min_compatibility_version: tuple[str, ...] = flag(
        (),
        LIST,
        "Oldest version of the control plane's components; 1.33 to 1.36 are accepted and have no effect on scheduling.",
        metavar="[kube=]VERSION",
    )


@attrs.frozen(kw_only=True)
class LogFlags:
    """Logging."""

    verbosity: int = flag(2, LEVEL, "Log verbosity: 0 warnings, 2 decisions, 4 details.", name="v", short="v")
    logging_format: str = flag("text", TEXT, "Format of the log lines: text or json.", metavar="text|json")
    log_format: str = flag("", TEXT, "Old name of --logging-format.", hidden=True)
    vmodule: Mapping[str, int] = flag(
        {},
        VMODULE,
        "Verbosity of the modules whose name matches a pattern: scheduling_cycle=4, or queue/*=4. Text format only.",
    )
    log_flush_frequency_seconds: float = flag(5.0, DURATION, "Accepted without effect: every line is written at once.")
    log_text_split_stream: bool = flag(
        False, BOOL, "Write errors to stderr and the rest to stdout. Needs the feature gate LoggingAlphaOptions."
    )
    log_text_info_buffer_size: str = flag("", TEXT, _NO_BUFFER, metavar="QUANTITY")
    log_json_split_stream: bool = flag(
        False,
        BOOL,
        "As --log-text-split-stream, for --logging-format=json. Needs the feature gate LoggingAlphaOptions.",
    )
    log_json_info_buffer_size: str = flag("", TEXT, _NO_BUFFER, metavar="QUANTITY")


@attrs.frozen(kw_only=True)
class SecureServingFlags:
    """The HTTPS port."""

    bind_address: str = flag(
        "0.0.0.0",  # noqa: S104 - probes and scrapes come from outside, as with kube-scheduler
        ADDRESS,
        "Address of --secure-port, and of --health-port if this flag is given; 0.0.0.0 and :: mean all interfaces.",
    )
    secure_port: int = flag(
        10259,
        INT,
        "Port for HTTPS with authentication and authorization; 0 opens no port. If the flag is not given and the port "
        "is in use, no port is opened.",
        metavar="PORT",
    )
    cert_dir: str = flag(
        "",
        TEXT,
        "Folder of kube-scheduler.crt and kube-scheduler.key; missing files are generated. Without this flag and "
        "without --tls-cert-file, a self-signed certificate is generated in memory.",
        metavar="FOLDER",
    )
    tls_cert_file: str = flag(
        "", FILE, "Certificate to serve, with its chain, in PEM; the file is read again when it changes."
    )
    tls_private_key_file: str = flag("", FILE, "Private key of --tls-cert-file, in PEM.")
    tls_sni_cert_key: tuple[NamedPair, ...] = flag(
        (),
        NAMED_PAIRS,
        "Certificate and key for clients that request one of these host names (default: the names in the certificate); "
        "'*.example.com' is allowed. Repeatable.",
    )
    tls_min_version: str = flag(
        "", TEXT, "Minimum TLS version: VersionTLS12 or VersionTLS13.", metavar="VERSION", shown="VersionTLS12"
    )
    tls_cipher_suites: tuple[str, ...] = flag(
        (), LIST, "Cipher suites for TLS 1.2, by Go's names, such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256."
    )
    tls_curve_preferences: tuple[str, ...] = flag(
        (),
        LIST,
        "The only key exchange to allow, by Go's CurveID: 23 (P-256), 24 (P-384), 25 (P-521) or 29 (X25519).",
        metavar="ID",
    )
    permit_port_sharing: bool = flag(False, BOOL, "Allow several processes to listen on the same port (SO_REUSEPORT).")
    permit_address_sharing: bool = flag(False, BOOL, "Accepted without effect: SO_REUSEADDR is always set.")
    disable_http2_serving: bool = flag(False, BOOL, "Accepted without effect: the port serves HTTP/1.1 only.")
    http2_max_streams_per_connection: int = flag(0, INT, "Accepted without effect: the port serves HTTP/1.1 only.")


@attrs.frozen(kw_only=True)
class AuthenticationFlags:
    """Authentication on the HTTPS port."""

    authentication_kubeconfig: str = flag(
        "",
        FILE,
        "Kubeconfig of the API server that checks tokens (TokenReview). Default: the pod's service account; outside a "
        "pod, all requests are anonymous.",
    )
    authentication_skip_lookup: bool = flag(
        False, BOOL, "Do not look up the cluster's client CA (ConfigMap extension-apiserver-authentication)."
    )
    authentication_token_webhook_cache_ttl_seconds: float = flag(
        10.0, DURATION, "How long the result of a TokenReview is cached."
    )
    authentication_tolerate_lookup_failure: bool = flag(
        True, BOOL, "Start without client certificates if the lookup of the client CA fails."
    )
    client_ca_file: str = flag(
        "", FILE, "CA file for client certificates; the common name of a certificate is the user."
    )
    requestheader_client_ca_file: str = flag(
        "", FILE, "Refused: pyscheduler does not accept users named in a proxy's headers."
    )
    requestheader_allowed_names: tuple[str, ...] = flag((), LIST, _NO_HEADERS)
    requestheader_username_headers: tuple[str, ...] = flag(("x-remote-user",), LIST, _NO_HEADERS)
    requestheader_uid_headers: tuple[str, ...] = flag((), LIST, _NO_HEADERS)
    requestheader_group_headers: tuple[str, ...] = flag(("x-remote-group",), LIST, _NO_HEADERS)
    requestheader_extra_headers_prefix: tuple[str, ...] = flag(("x-remote-extra-",), LIST, _NO_HEADERS)


@attrs.frozen(kw_only=True)
class AuthorizationFlags:
    """Authorization on the HTTPS port."""

    authorization_kubeconfig: str = flag(
        "",
        FILE,
        "Kubeconfig of the API server that authorizes requests (SubjectAccessReview). Default: the pod's service "
        "account; outside a pod, only the paths of --authorization-always-allow-paths are allowed, and the group "
        "system:masters may do everything.",
    )
    authorization_always_allow_paths: tuple[str, ...] = flag(
        ("/healthz", "/readyz", "/livez"), LIST, "Paths that need no authorization; a path that ends in * is a prefix."
    )
    authorization_webhook_cache_authorized_ttl_seconds: float = flag(
        10.0, DURATION, "How long an allowed request is cached."
    )
    authorization_webhook_cache_unauthorized_ttl_seconds: float = flag(
        10.0, DURATION, "How long a denied request is cached."
    )


@attrs.frozen(kw_only=True)
class MetricsFlags:
    """The content of /metrics."""

    disabled_metrics: tuple[str, ...] = flag((), LIST, "Metrics to hide, by their full names.")
    allow_metric_labels: Mapping[str, str] = flag(
        {},
        MAP,
        "Allowed values of a label; other values are counted as 'unexpected'.",
        metavar="METRIC,LABEL=V1,V2",
    )
    allow_metric_labels_manifest: str = flag("", FILE, "YAML file with the content of --allow-metric-labels.")
    show_hidden_metrics_for_version: str = flag(
        "", TEXT, "Accepted for 1.35, without effect: no metric is hidden.", metavar="VERSION"
    )


@attrs.frozen(kw_only=True)
class DeprecatedFlags:
    """Deprecated flags; with --config, all but the first are ignored."""

    max_unschedulable_seconds: float = flag(
        300.0,
        DURATION,
        "DEPRECATED in kube-scheduler: maximum time before an unschedulable pod is retried.",
        name="pod-max-in-unschedulable-pods-duration",
        shown="5m0s",
    )
    profiling: bool = flag(True, BOOL, "DEPRECATED: serve /debug/pprof/ on the HTTPS port. Ignored with --config.")
    contention_profiling: bool = flag(
        True, BOOL, "DEPRECATED: no effect, because the scheduler runs in one thread. Ignored with --config."
    )
    kube_api_qps: float = flag(50.0, FLOAT, "DEPRECATED: requests per second to the API server. Ignored with --config.")
    kube_api_burst: int = flag(100, INT32, "DEPRECATED: burst of requests to the API server. Ignored with --config.")
    kube_api_content_type: str = flag(
        "application/vnd.kubernetes.protobuf",
        TEXT,
        "DEPRECATED: application/json or the default; JSON is used in either case. Ignored with --config.",
        metavar="TYPE",
    )


@attrs.frozen(kw_only=True)
class GlobalFlags:
    """Other flags."""

    version: str = flag(
        "",
        attrs.evolve(TEXT, alone="true"),
        "Show the version and exit; 'raw' shows every field.",
        metavar="true|raw",
    )
    unsupported_kube_api_over_localhost: bool = flag(
        False, BOOL, "Refused: an OpenShift addition; name the API server with --master."
    )


@attrs.frozen(kw_only=True)
class Flags:
    """All flags of a command line; `given` holds the attributes whose flags were on the command line."""

    main: MainFlags = MainFlags()
    own: OwnFlags = OwnFlags()
    leader_election: LeaderElectionFlags = LeaderElectionFlags()
    feature_gate: FeatureGateFlags = FeatureGateFlags()
    logs: LogFlags = LogFlags()
    secure_serving: SecureServingFlags = SecureServingFlags()
    authentication: AuthenticationFlags = AuthenticationFlags()
    authorization: AuthorizationFlags = AuthorizationFlags()
    metrics: MetricsFlags = MetricsFlags()
    deprecated: DeprecatedFlags = DeprecatedFlags()
    globals: GlobalFlags = GlobalFlags()
    given: frozenset[str] = frozenset()

    @classmethod
    def read(cls, parameters: Mapping[str, Any]) -> Flags:
        """Return the flags from click's parameters by name."""
        sections = {name: declaration.collect(kind, parameters) for name, (_, kind) in _SECTIONS.items()}
        named = (name for _, kind in _SECTIONS.values() for name in declaration.given(kind, parameters))
        return cls(**sections, given=frozenset(named))

    def items(self) -> Iterator[tuple[str, object]]:
        """Yield every flag's name and value, defaults included."""
        for name, (_, kind) in _SECTIONS.items():
            section = getattr(self, name)
            for field in attrs.fields(kind):
                yield declaration.flag_name(field), getattr(section, field.name)


#: Attribute of `Flags`: heading in the help, and class. The flags that users need most come first.
_SECTIONS: Final[Mapping[str, tuple[str, Any]]] = {
    "main": ("Misc flags", MainFlags),
    "own": ("Flags that kube-scheduler does not have", OwnFlags),
    "leader_election": ("Leader election flags", LeaderElectionFlags),
    "feature_gate": ("Feature gate flags", FeatureGateFlags),
    "logs": ("Logs flags", LogFlags),
    "secure_serving": ("Secure serving flags", SecureServingFlags),
    "authentication": ("Authentication flags", AuthenticationFlags),
    "authorization": ("Authorization flags", AuthorizationFlags),
    "metrics": ("Metrics flags", MetricsFlags),
    "deprecated": ("Deprecated flags", DeprecatedFlags),
    "globals": ("Global flags", GlobalFlags),
}


def all_options() -> list[declaration.FlagOption]:
    """Return click's options, section by section."""
    return [option for heading, kind in _SECTIONS.values() for option in declaration.options(kind, section=heading)]
