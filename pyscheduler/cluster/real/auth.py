"""Read and renew credentials for the API server, from a kubeconfig, a pod's service account or an exec plugin.

Differs from kube-scheduler: impersonation (`as`) and SOCKS5 proxies are errors.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import re
import sys
import threading
from functools import cache
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import attrs

from kube_objects.clock import LoopClock
from pyscheduler.cluster.real import kubeconfig as kubeconfigs
from pyscheduler.cluster.real.pacing import Watchdog
from pyscheduler.cluster.real.proxies import environment_proxy
from pyscheduler.cluster.real.tls import AUTHORITY_SETTING, make_context, read_files
from pyscheduler.framework.errors import ConfigError
from pyscheduler.framework.log_capture import captured

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from kube_objects.clock import Clock

__all__ = ["Credentials", "find", "load", "plain"]

_log = logging.getLogger(__name__)

#: How often a token in a file is read again, and a failed renewal is tried again; as client-go.
_RENEW_SECONDS: Final = 60.0
#: Refusals (401) lead to a renewal at most this often, or a revoked account would run its exec plugin all the time.
_REFUSED_SECONDS: Final = 10.0
#: From how long before its end the official client takes an exec plugin's token for expired.
_EXPIRY_MARGIN_SECONDS: Final = 300.0
#: How long an exec plugin may take; it may talk to a person's browser.
_PLUGIN_SECONDS: Final = 60.0
#: Where a pod finds the name of its own namespace.
_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
#: What of a cluster and of a user says that the server speaks TLS.
_CLUSTER_TLS: Final = ("certificate-authority", "certificate-authority-data", "insecure-skip-tls-verify")
_USER_TLS: Final = ("client-certificate", "client-certificate-data")
_CLIENT_LOGGER: Final = "kubernetes.aio.config.kube_config"
#: How it shows what a plugin wrote.
_BYTES: Final = re.compile(r"\bb'(.*)'$")
_PACKAGE: Final = "kubernetes"
#: Credentials are loaded in threads, and several at once.
_import_lock: Final = threading.Lock()


@attrs.define(kw_only=True)
class Credentials:
    """The address of one API server, and the credentials for it; made by `load` or `plain`."""

    server: str
    #: None for plain HTTP.
    ssl_context: ssl.SSLContext | None = None
    #: The name the server's certificate must bear, where it is not the URL's.
    server_hostname: str | None = None
    proxy: str | None = None
    #: The setting that names the authority of the server's certificate, for messages.
    authority: str = AUTHORITY_SETTING
    #: Where people who say nothing else mean to be: the context's, or the service account's own.
    namespace: str = "default"
    #: Whether the server may compress its answers.
    compressed: bool = True
    #: Counts the client certificates there have been.
    certificates: int = 0
    #: Counts the TLS contexts there have been: connections opened under another count show or trust what is old.
    contexts: int = 0
    _source: _ServiceAccount | _Kubeconfig | None = None
    _configuration: Any = None
    _clock: Clock | None = None
    _authorization: str | None = None
    _renew_at: float = math.inf
    #: What the TLS files held that the context is made of, and when to look at them again.
    _tls_files: Sequence[bytes] = ()
    _look_at: float = math.inf
    _renewed_at: float = -math.inf
    #: The reading that is under way, or was.
    _renewal: asyncio.Task[None] | None = None
    _lock: asyncio.Lock = attrs.Factory(asyncio.Lock)

    async def authorization(self) -> str | None:
        """Return the Authorization header of the next request, None where there is none; renew it where it is due."""
        if self._clock is not None and self._clock.now() >= self._renew_at:
            async with self._lock:
                if self._clock.now() >= self._renew_at:
                    await self._renew(anew=False)
        elif self._clock is not None and self._clock.now() >= self._look_at:
            async with self._lock:
                if self._clock.now() >= self._look_at:
                    await self._look()
        return self._authorization

    async def renew(self, refused: str | None) -> bool:
        """Read the credentials anew after a 401 to `refused`; return True when they are other ones now."""
        if self._clock is None or self._source is None:
            return False
        async with self._lock:
            if self._authorization != refused:
                return True  # another request was refused, too, and came first
            is_renewing = self._renewal is not None and not self._renewal.done()
            if self._clock.now() - self._renewed_at < _REFUSED_SECONDS and not is_renewing:
                return False
            contexts = self.contexts
            await self._renew(anew=True)
            return self._authorization != refused or self.contexts != contexts

    async def for_server(
        self, server: str, *, authority: str | None, is_verified: bool, compares_names: bool, setting: str
    ) -> Credentials:
        """Return the same user's token and client certificate for another server; they are not renewed.

        `authority` is a file of certificates; without one, the system's are trusted. `setting` is the option that names
        the file, for messages. Raises `ConfigError` if it cannot be used.
        """
        source = f"{setting} {authority}" if authority else server
        own = self._configuration
        files = SimpleNamespace(
            verify_ssl=is_verified,
            ssl_ca_cert=authority,
            ca_cert_data=None,
            cert_file=own.cert_file if own is not None else None,
            key_file=own.key_file if own is not None else None,
        )
        context = await asyncio.to_thread(make_context, files, source)
        context.check_hostname = is_verified and compares_names
        authorization = await self.authorization()
        return Credentials(server=server, ssl_context=context, authority=setting, authorization=authorization)

    async def close(self) -> None:
        """Forget the credentials."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait([self._renewal])
        self._source = self._configuration = self._authorization = None
        self._renew_at = self._look_at = math.inf

    async def _renew(self, *, anew: bool) -> None:
        """Read the source again, to the end even where whoever waits for it gives up: a lease's request does so soon.

        Otherwise a plugin that takes longer than any request may would be begun again and again, and never answer.
        """
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.create_task(self._read(anew=anew), name="renew credentials")
        await asyncio.wait([self._renewal])

    async def _read(self, *, anew: bool) -> None:
        """Read the source again; what is there stays where that fails."""
        assert self._clock is not None
        assert self._source is not None
        self._renewed_at = self._clock.now()
        try:
            await self._source.read(self._configuration, anew=anew)
            self._authorization = await _authorization(self._configuration, self._source.name)
            await self._renew_context()
        except Exception as error:  # noqa: BLE001 - the client raises many kinds; each leaves the old credential in use
            self._complain(error)
            self._renew_at = self._clock.now() + _RENEW_SECONDS
        else:
            self._renew_at = self._clock.now() + self._source.valid_seconds(self._clock.wall())

    async def _look(self) -> None:
        """Look at the TLS files while the rest is good for longer."""
        try:
            await self._renew_context()
        except (ConfigError, OSError) as error:
            self._complain(error)

    async def _renew_context(self) -> None:
        """Make a new TLS context if the files it comes from hold something else now."""
        if self.ssl_context is None:
            return
        assert self._clock is not None
        assert self._source is not None
        self._look_at = self._clock.now() + _RENEW_SECONDS
        files = await asyncio.to_thread(read_files, self._configuration)
        if files == self._tls_files:
            return
        self.ssl_context = await asyncio.to_thread(make_context, self._configuration, self._source.name)
        self.contexts += 1
        self.certificates += files[1:] != self._tls_files[1:]
        self._tls_files = files
        _log.info("Certificates have changed source=%s", self._source.name)

    def _complain(self, error: Exception) -> None:
        assert self._source is not None
        where = "" if isinstance(error, ConfigError) else f"{self._source.name}: "
        _log.warning("Credentials could not be renewed err=%s%s", where, _one_line(error))


def plain(server: str) -> Credentials:
    """Return credentials for a server that asks for none (the embedded one, or a local proxy)."""
    server = _checked(_with_scheme(server, secure=False), "the API server's address")
    return Credentials(server=server, proxy=_proxy(None, server, server))


async def find(*, kubeconfig: str | None, master: str | None) -> Credentials:
    """Return what the flags ask for: an address alone means a server that asks for no credentials; else as `load`."""
    if master and not kubeconfig:
        return plain(master)
    return await load(kubeconfig=kubeconfig, master=master)


async def load(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    master: str | None = None,
    in_cluster: bool = False,
    clock: Clock | None = None,
) -> Credentials:
    """Return the credentials that kubeconfig or service account give.

    `kubeconfig` is one file, whatever is in its name. Without it: the files that `$KUBECONFIG` lists, the pod's service
    account, then `~/.kube/config`; with `in_cluster` the service account alone. `master` overrides the server; `clock`
    says when to renew. Raises `ConfigError` with one line where nothing usable is found.
    """
    clock = clock if clock is not None else LoopClock()
    listed = "" if in_cluster else os.environ.get("KUBECONFIG", "")
    source: _ServiceAccount | _Kubeconfig
    if kubeconfig:
        source = _Kubeconfig(kubeconfigs.one_path(kubeconfig), context, clock)
    elif not listed and (in_cluster or "KUBERNETES_SERVICE_HOST" in os.environ):
        source = _ServiceAccount()
    else:
        source = _Kubeconfig(kubeconfigs.split_paths(listed or "~/.kube/config"), context, clock)
    # The default host would be localhost.
    configuration = await asyncio.to_thread(lambda: _client().Configuration(host=""))
    try:
        await source.read(configuration, anew=False)
        authorization = await _authorization(configuration, source.name)
    except ConfigError:
        raise
    except Exception as error:  # the client raises many kinds, all of them about the user's files
        raise ConfigError(f"{source.name} cannot be used: {_one_line(error)}") from error
    if master:
        tls = bool(configuration.ssl_ca_cert or configuration.cert_file or not configuration.verify_ssl)
        server = _checked(_with_scheme(master, secure=tls), "--master")
    else:
        server = _checked(configuration.host, f"{source.name}: server")
    secure = server.startswith("https:")
    ssl_context = await asyncio.to_thread(make_context, configuration, source.name) if secure else None
    return Credentials(
        server=server,
        ssl_context=ssl_context,
        server_hostname=configuration.tls_server_name or None,
        proxy=_proxy(configuration.proxy, server, source.name),
        namespace=await asyncio.to_thread(source.namespace) or "default",
        compressed=await asyncio.to_thread(source.compresses),
        source=source,
        configuration=configuration,
        clock=clock,
        authorization=authorization,
        renew_at=clock.now() + source.valid_seconds(clock.wall()),
        tls_files=await asyncio.to_thread(read_files, configuration) if secure else (),
        look_at=clock.now() + _RENEW_SECONDS if secure else math.inf,
    )


class _ServiceAccount:
    """The token and authority that a pod finds in its file system."""

    name = "service account"

    async def read(self, configuration: Any, *, anew: bool) -> None:
        """Bring `configuration` up to date; `anew`: it was refused, even if it looks valid."""
        del anew  # files are read whenever they are asked for
        await asyncio.to_thread(self._read, configuration)

    def _read(self, configuration: Any) -> None:
        incluster_config = _client().incluster_config
        # Its own way to renew raises into the request that happens to be under way.
        incluster_config.InClusterConfigLoader(
            token_filename=incluster_config.SERVICE_TOKEN_FILENAME,
            cert_filename=incluster_config.SERVICE_CERT_FILENAME,
            try_refresh_token=False,
        ).load_and_set(configuration)

    def namespace(self) -> str:
        try:
            return _NAMESPACE_FILE.read_text(encoding="utf-8").strip()
        except OSError:
            return ""

    def compresses(self) -> bool:
        return True

    def valid_seconds(self, wall: float) -> float:
        """Return after how long to read again."""
        del wall
        return _RENEW_SECONDS


class _Kubeconfig:
    """One or several kubeconfig files, and the user of one context in them."""

    def __init__(self, paths: list[Path], context: str | None, clock: Clock) -> None:
        self.name = "kubeconfig " + os.pathsep.join(str(path) for path in paths)
        self._paths = paths
        self._context = context
        #: What that comes to, once the files were read.
        self._chosen = ""
        self._clock = clock
        self._loader: Any = None

    async def read(self, configuration: Any, *, anew: bool) -> None:
        with captured(_CLIENT_LOGGER, _complaint_of) as said:
            try:
                async with Watchdog(self._clock, _PLUGIN_SECONDS):
                    await self._read(configuration, anew=anew)
            except TimeoutError as error:
                raise ConfigError(f"{self.name}: the exec plugin did not answer in {_PLUGIN_SECONDS:.0f} s") from error
        if said and self._is_exec:
            raise ConfigError(f"{self.name}: the exec plugin failed: {said[-1]}")

    async def _read(self, configuration: Any, *, anew: bool) -> None:
        if self._loader is None:
            self._chosen = await asyncio.to_thread(kubeconfigs.find_context, self._paths, self._context)
            self._loader = await asyncio.to_thread(_open_kubeconfig, self._paths, self._chosen)
        elif anew and hasattr(self._loader, "exec_plugin_expiry"):
            del self._loader.exec_plugin_expiry  # or the plugin would not be asked before its token's time is up
        await self._loader.load_and_set(configuration)

    @property
    def _is_exec(self) -> bool:
        user = self._loader._user if self._loader is not None else None  # noqa: SLF001 - it has no public name
        return user is not None and "exec" in user

    def namespace(self) -> str:
        return kubeconfigs.namespace_of(self._paths, self._chosen)

    def compresses(self) -> bool:
        return not kubeconfigs.disables_compression(self._paths, self._chosen)

    def valid_seconds(self, wall: float) -> float:
        if not self._is_exec:
            return _RENEW_SECONDS
        expiry = getattr(self._loader, "exec_plugin_expiry", None)
        if expiry is None:
            return math.inf  # good until it is refused, as for client-go
        left: float = expiry.timestamp() - wall
        # Within the margin the plugin is run at every call; a short-lived token is renewed at half of its time.
        return max(left - _EXPIRY_MARGIN_SECONDS, min(left / 2, _RENEW_SECONDS), 1.0)


def _open_kubeconfig(paths: Sequence[Path], context: str) -> Any:
    """Return the official client's loader for a context; nothing is asked for yet."""
    kube_config = _client().kube_config

    class Merger(kube_config.KubeConfigMerger):  # type: ignore[misc,name-defined] # the client has no types
        """Reads these files; the client's own would take a colon in a path for the end of it."""

        def __init__(self) -> None:
            self.config_merged = None
            self.config_files: dict[str, Any] = {}
            for path in paths:
                if path.exists():
                    self.load_config(str(path))

    # What is public asks at once, before a plugin's command could be put right.
    loader = kube_config.KubeConfigLoader(config_dict=Merger().config, config_base_path=None, active_context=context)
    user = loader._user  # noqa: SLF001 - it has no public name
    plugin = user.safe_get("exec") if user is not None else None
    if isinstance(plugin, dict) and isinstance(plugin.get("command"), str):
        plugin["command"] = kubeconfigs.resolve_command(plugin["command"], Path(user.path))
    cluster = loader._cluster  # noqa: SLF001 - likewise
    server = cluster.safe_get("server")
    if isinstance(server, str):
        # The client reads certificates only where the server's URL says https. Whoever names some means TLS.
        said = [cluster.safe_get(name) for name in _CLUSTER_TLS]
        said += [user.safe_get(name) for name in _USER_TLS] if user is not None else []
        cluster.value["server"] = _with_scheme(server, secure=any(said))
    return loader


@attrs.frozen
class _Client:
    """The parts of the official client that read credentials."""

    Configuration: Any
    incluster_config: Any
    kube_config: Any


@cache
def _client() -> _Client:
    """Import the parts of the official client that read credentials, and only these.

    `import kubernetes` runs the package's own code, which imports two API clients, requests and OAuth: 9 MiB and half a
    second that nothing here uses. So the packages around these parts are empty while the parts are imported. None of
    them stays in `sys.modules`: a plugin that imports `kubernetes` gets a package of its own, and all of it.
    """
    with _import_lock:
        if _PACKAGE in sys.modules:
            return _import_client()
        try:
            for name in (_PACKAGE, f"{_PACKAGE}.aio"):
                spec = find_spec(name)
                if spec is None:
                    raise ConfigError(f"the package {_PACKAGE!r}, which reads credentials, is not installed")
                sys.modules[name] = module_from_spec(spec)
            return _import_client()
        finally:
            for name in [name for name in sys.modules if name.partition(".")[0] == _PACKAGE]:
                del sys.modules[name]


def _import_client() -> _Client:
    from kubernetes.aio.client import Configuration
    from kubernetes.aio.config import incluster_config, kube_config

    return _Client(Configuration, incluster_config, kube_config)


async def _authorization(configuration: Any, source: str) -> str | None:
    token: str | None = await configuration.get_api_key_with_prefix("BearerToken")
    if not token or not token.strip():
        return None
    header = token.strip()  # a token read from a file ends in a newline
    if not header.isascii() or not header.isprintable():
        raise ConfigError(f"{source}: the token holds characters that no token has; is it the right file?")
    return header


def _complaint_of(record: logging.LogRecord) -> str | None:
    """Return what the official client logs instead of raising; an exec plugin's failure is among it."""
    return _BYTES.sub(r"\1", " ".join(record.getMessage().split())) if record.levelno >= logging.WARNING else None


def _with_scheme(given: str, *, secure: bool) -> str:
    """Return the URL of a server or proxy, which may be given as `host:port`: over HTTPS where that is `secure`.

    As client-go's DefaultServerURL reads it: what has no scheme, or no host behind it, and no path.
    """
    whole = f"{'https' if secure else 'http'}://{given}"
    try:
        parts = urlsplit(given)
        is_url = bool(parts.scheme and parts.netloc)
        return given if is_url or not given or urlsplit(whole).path not in {"", "/"} else whole
    except ValueError:
        return given


def _checked(url: str, what: str) -> str:
    """Return the URL without a slash at its end; raise `ConfigError` where it is none."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, a bracket without its pair
        usable = False
    if not usable:
        raise ConfigError(f"{what} must be a URL like https://10.0.0.1:6443, not {url!r}")
    return url.rstrip("/")


def _proxy(named: str | None, server: str, source: str) -> str | None:
    """Return the proxy on the way: the kubeconfig's, or the environment's as kubectl reads it."""
    if named:
        return _checked(named, f"{source}: proxy-url")
    proxy = environment_proxy(server, os.environ)
    if not proxy:
        return None
    return _checked(_with_scheme(proxy, secure=False), f"{urlsplit(server).scheme}_proxy in the environment")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
