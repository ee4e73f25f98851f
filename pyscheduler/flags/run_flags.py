"""Every flag of `pyscheduler run`: kube-scheduler 1.36's, in its sections and with its defaults, and a few of our own.

The module says what each flag does. `effective_config` applies the flags to the configuration, `serving` reads those of
the HTTPS port. `effective_config.refusals` refuses a flag that cannot work here as it does in kube-scheduler.

Differs from kube-scheduler: the lease is called `pyscheduler`, `-v` is 2 where it is not given, and `--kubeconfig`
counts beside `--config`, too.

Source: cmd/kube-scheduler/app/options and what it takes from apiserver and component-base.
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


@attrs.frozen(kw_only=True)
class MainFlags:
    """What to schedule with, and where."""

    config: str = flag(
        "",
        FILE,
        "A KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1), as kube-scheduler takes it. Without one there "
        "is a single profile named 'pyscheduler' with the default plugins.",
    )
    kubeconfig: str = flag(
        "",
        FILE,
        "How to reach the cluster; overrides the configuration's. "
        "Without it: $KUBECONFIG, the pod's service account, or ~/.kube/config.",
    )
    master: str = flag("", TEXT, "The API server's address; overrides the kubeconfig's.", metavar="URL")
    write_config_to: str = flag("", FILE, "Write the effective configuration to this file and exit.")


@attrs.frozen(kw_only=True)
class OwnFlags:
    """What kube-scheduler does not have."""

    health_port: int = flag(
        0,
        INT,
        "Port for /healthz, /livez, /readyz, /metrics and /configz over plain HTTP, for everybody who can reach it; 0 "
        "serves none. On 127.0.0.1, unless --bind-address is given.",
        metavar="PORT",
    )
    seed: int | None = flag(None, INT, "Make the choice among equal nodes repeatable.")
    blocked: tuple[str, ...] = flag(
        (),
        TEXTS,
        "Leave out what this distribution (or entry point) offers, as if it were not installed; repeatable.",
        name="block",
    )


@attrs.frozen(kw_only=True)
class LeaderElectionFlags:
    """Who schedules, of several replicas. Given here, they override the file; times in seconds."""

    leader_elect: bool = flag(
        True, BOOL, "Schedule only while holding a Lease, so that several instances can stand by; overrides the file."
    )
    lease_duration_seconds: float = flag(
        15.0,
        DURATION,
        "How long a standby waits after the last renewal it saw before it takes the lease.",
        name="leader-elect-lease-duration",
        shown="15s",
    )
    renew_deadline_seconds: float = flag(
        10.0,
        DURATION,
        "How long the leader tries to renew before it gives up; less than the lease duration.",
        name="leader-elect-renew-deadline",
        shown="10s",
    )
    retry_period_seconds: float = flag(
        2.0, DURATION, "Time between two attempts to take or renew it.", name="leader-elect-retry-period", shown="2s"
    )
    resource_lock: str = flag("leases", TEXT, "Kind of the lock; only 'leases'.", name="leader-elect-resource-lock")
    resource_name: str = flag("pyscheduler", TEXT, "Name of the Lease.", name="leader-elect-resource-name")
    resource_namespace: str = flag(
        "kube-system", TEXT, "Namespace of the Lease.", name="leader-elect-resource-namespace"
    )


@attrs.frozen(kw_only=True)
class FeatureGateFlags:
    """Which of kube-scheduler's features are on."""

    feature_gates: tuple[str, ...] = flag(
        (),
        TEXTS,
        "Switch kube-scheduler's feature gates, with or without the prefix 'kube:'; the defaults are those of 1.36. "
        "Repeatable.",
        metavar="A=true,B=false",
    )
    emulated_version: tuple[str, ...] = flag(
        (), LIST, "Version whose behaviour is wanted; only 1.36.", metavar="[kube=]1.36"
    )
    min_compatibility_version: tuple[str, ...] = flag(
        (),
        LIST,
        "Oldest version that the control plane's components may have; 1.33 to 1.36, with no effect on scheduling.",
        metavar="[kube=]VERSION",
    )


@attrs.frozen(kw_only=True)
class LogFlags:
    """How the program logs."""

    verbosity: int = flag(2, LEVEL, "How much is logged: 0 warnings, 2 decisions, 4 detail.", name="v", short="v")
    logging_format: str = flag("text", TEXT, "Shape of the log lines: text or json.", metavar="text|json")
    log_format: str = flag("", TEXT, "The old name of --logging-format.", hidden=True)
    vmodule: Mapping[str, int] = flag(
        {}, VMODULE, "Other levels for the modules whose name matches: scheduling_cycle=4, or queue/*=4. Text only."
    )
    log_flush_frequency_seconds: float = flag(
        5.0,
        DURATION,
        "Accepted: each line is written at once.",
        name="log-flush-frequency",
        shown="5s",
    )
    log_text_split_stream: bool = flag(
        False, BOOL, "Write errors to stderr and the rest to stdout. Needs the feature gate LoggingAlphaOptions."
    )
    log_text_info_buffer_size: str = flag(
        "", TEXT, "Refused, but for 0: each line is written at once.", metavar="QUANTITY"
    )
    log_json_split_stream: bool = flag(
        False, BOOL, "The same for --logging-format=json. Needs the feature gate LoggingAlphaOptions."
    )
    log_json_info_buffer_size: str = flag(
        "", TEXT, "Refused, but for 0: each line is written at once.", metavar="QUANTITY"
    )


@attrs.frozen(kw_only=True)
class SecureServingFlags:
    """The HTTPS port: health, metrics and debugging, for those who are allowed to."""

    bind_address: str = flag(
        "0.0.0.0",  # noqa: S104 - probes and scrapes come from outside, as with kube-scheduler
        ADDRESS,
        "Address of --secure-port, and of --health-port where it is given; 0.0.0.0 or :: is all.",
    )
    secure_port: int = flag(
        10259,
        INT,
        "Port for HTTPS with authentication and authorization; 0 serves none. Where the default is taken, none is "
        "served.",
        metavar="PORT",
    )
    cert_dir: str = flag(
        "",
        TEXT,
        "Folder of kube-scheduler.crt and kube-scheduler.key; they are made there where they are missing. Without it, "
        "and without --tls-cert-file, a self-signed certificate is made in memory.",
        metavar="FOLDER",
    )
    tls_cert_file: str = flag("", FILE, "Certificate (and its chain) to serve, in PEM; read again when it changes.")
    tls_private_key_file: str = flag("", FILE, "Private key of --tls-cert-file, in PEM.")
    tls_sni_cert_key: tuple[NamedPair, ...] = flag(
        (),
        NAMED_PAIRS,
        "Another pair of files for clients that ask for one of these names (default: those in the certificate); "
        "'*.example.com' is allowed. Repeatable.",
    )
    tls_min_version: str = flag("", TEXT, "VersionTLS12 or VersionTLS13.", metavar="VERSION", shown="VersionTLS12")
    tls_cipher_suites: tuple[str, ...] = flag(
        (), LIST, "Cipher suites below TLS 1.3, by Go's names, such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256."
    )
    tls_curve_preferences: tuple[str, ...] = flag(
        (), LIST, "The one key exchange to allow, by Go's CurveID: 23, 24, 25 or 29.", metavar="ID"
    )
    permit_port_sharing: bool = flag(False, BOOL, "Let several instances listen on the same port (SO_REUSEPORT).")
    permit_address_sharing: bool = flag(False, BOOL, "Accepted: SO_REUSEADDR is always set.")
    disable_http2_serving: bool = flag(False, BOOL, "Accepted: HTTP/1.1 is all that is spoken.")
    http2_max_streams_per_connection: int = flag(0, INT, "Accepted: HTTP/1.1 is all that is spoken.")


@attrs.frozen(kw_only=True)
class AuthenticationFlags:
    """Who asks, on the HTTPS port."""

    authentication_kubeconfig: str = flag(
        "",
        FILE,
        "How to reach the API server that checks tokens (TokenReview). Without it: the pod's service account; without "
        "that, everybody is anonymous.",
    )
    authentication_skip_lookup: bool = flag(
        False, BOOL, "Do not look up the cluster's client CA (ConfigMap extension-apiserver-authentication)."
    )
    authentication_token_webhook_cache_ttl_seconds: float = flag(
        10.0,
        DURATION,
        "How long an answer about a token is remembered.",
        name="authentication-token-webhook-cache-ttl",
        shown="10s",
    )
    authentication_tolerate_lookup_failure: bool = flag(
        True, BOOL, "Go on where that lookup fails, without client certificates."
    )
    client_ca_file: str = flag(
        "", FILE, "Authorities whose client certificates are believed: the common name is the user."
    )
    requestheader_client_ca_file: str = flag(
        "", FILE, "Refused: users named by a proxy's headers are not believed here."
    )
    requestheader_allowed_names: tuple[str, ...] = flag(
        (), LIST, "Of no effect without --requestheader-client-ca-file."
    )
    requestheader_username_headers: tuple[str, ...] = flag(
        ("x-remote-user",), LIST, "Of no effect without --requestheader-client-ca-file."
    )
    requestheader_uid_headers: tuple[str, ...] = flag((), LIST, "Of no effect without --requestheader-client-ca-file.")
    requestheader_group_headers: tuple[str, ...] = flag(
        ("x-remote-group",), LIST, "Of no effect without --requestheader-client-ca-file."
    )
    requestheader_extra_headers_prefix: tuple[str, ...] = flag(
        ("x-remote-extra-",), LIST, "Of no effect without --requestheader-client-ca-file."
    )


@attrs.frozen(kw_only=True)
class AuthorizationFlags:
    """Who may what, on the HTTPS port."""

    authorization_kubeconfig: str = flag(
        "",
        FILE,
        "How to reach the API server that is asked who may what (SubjectAccessReview). Without it: the pod's service "
        "account; without that, only the paths below are open, and everything to system:masters.",
    )
    authorization_always_allow_paths: tuple[str, ...] = flag(
        ("/healthz", "/readyz", "/livez"), LIST, "Paths that are open to everybody; one that ends in * is a prefix."
    )
    authorization_webhook_cache_authorized_ttl_seconds: float = flag(
        10.0,
        DURATION,
        "How long a yes is remembered.",
        name="authorization-webhook-cache-authorized-ttl",
        shown="10s",
    )
    authorization_webhook_cache_unauthorized_ttl_seconds: float = flag(
        10.0,
        DURATION,
        "How long a no is remembered.",
        name="authorization-webhook-cache-unauthorized-ttl",
        shown="10s",
    )


@attrs.frozen(kw_only=True)
class MetricsFlags:
    """What /metrics shows."""

    disabled_metrics: tuple[str, ...] = flag((), LIST, "Metrics to leave out, by their full names.")
    allow_metric_labels: Mapping[str, str] = flag(
        {},
        MAP,
        "The values that a label may have; all others count as 'unexpected'.",
        metavar="METRIC,LABEL=V1,V2",
    )
    allow_metric_labels_manifest: str = flag("", FILE, "A YAML file that says the same.")
    show_hidden_metrics_for_version: str = flag("", TEXT, "Accepted for 1.35: no metric is hidden.", metavar="VERSION")


@attrs.frozen(kw_only=True)
class DeprecatedFlags:
    """What the configuration file says better; all but the first are ignored beside --config."""

    max_unschedulable_seconds: float = flag(
        300.0,
        DURATION,
        "DEPRECATED: after so long a pod is tried again even if nothing happened.",
        name="pod-max-in-unschedulable-pods-duration",
        shown="5m0s",
    )
    profiling: bool = flag(True, BOOL, "DEPRECATED: serve /debug/pprof/ on the HTTPS port. Ignored beside --config.")
    contention_profiling: bool = flag(
        True, BOOL, "DEPRECATED: of no effect, for one thread contends with nobody. Ignored beside --config."
    )
    kube_api_qps: float = flag(
        50.0, FLOAT, "DEPRECATED: requests per second to the API server. Ignored beside --config.", shown="50"
    )
    kube_api_burst: int = flag(100, INT32, "DEPRECATED: requests to the API server at once. Ignored beside --config.")
    kube_api_content_type: str = flag(
        "application/vnd.kubernetes.protobuf",
        TEXT,
        "DEPRECATED: application/json, which is spoken in any case, or the default. Ignored beside --config.",
        metavar="TYPE",
    )


@attrs.frozen(kw_only=True)
class GlobalFlags:
    """The rest."""

    version: str = flag(
        "",
        attrs.evolve(TEXT, alone="true"),
        "Show the version and exit; 'raw' shows all that is known of it.",
        metavar="true|raw",
    )
    unsupported_kube_api_over_localhost: bool = flag(
        False, BOOL, "Refused: an OpenShift addition; name the API server with --master."
    )


@attrs.frozen(kw_only=True)
class Flags:
    """A whole command line. `given` holds the attributes whose flags were on it."""

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
        """Return what click has read, by the names of its parameters."""
        sections = {name: declaration.collect(kind, parameters) for name, (_, kind) in _SECTIONS.items()}
        named = (name for _, kind in _SECTIONS.values() for name in declaration.given(kind, parameters))
        return cls(**sections, given=frozenset(named))

    def items(self) -> Iterator[tuple[str, object]]:
        """Yield every flag's name and value, defaults included."""
        for name, (_, kind) in _SECTIONS.items():
            section = getattr(self, name)
            for field in attrs.fields(kind):
                yield declaration.flag_name(field), getattr(section, field.name)


#: Attribute of `Flags`, heading in the help, and class; what is typed most comes first.
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
