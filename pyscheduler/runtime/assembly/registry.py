"""The installed plugins by name, and the Python package of each."""

from __future__ import annotations

import difflib
import importlib
import logging
import re
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.errors import ConfigError, PluginError
from pyscheduler.framework.extensions import Extensions, Offer
from pyscheduler.framework.hooks import PLUGIN_API
from pyscheduler.framework.interfaces import Plugin
from pyscheduler.podgroup import Dialect, DialectTable
from pyscheduler.runtime.extension_points.points import extension_points_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyscheduler.framework.profile import ExtensionPoint

__all__ = ["Distribution", "PluginDescription", "Registry", "one_line"]

_log = logging.getLogger(__name__)

#: Stands for the distribution of plugins that come with none.
_DIRECT: Final = "this program"

_LONGEST_CAUSE: Final = 400
_API_VERSION: Final = re.compile(r"(\d{1,4})\.(\d{1,4})")


def one_line(error: BaseException) -> str:
    """Return the error as one line: its type, unless the message was written for users, and the message."""
    text = " ".join(str(error).split())
    if isinstance(error, (ConfigError, PluginError)):
        return text
    text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text if len(text) <= _LONGEST_CAUSE else f"{text[:_LONGEST_CAUSE]}..."


@attrs.define(kw_only=True)
class Distribution:
    """An entry point in the group `pyscheduler`, and what came of it."""

    name: str
    version: str = ""
    #: As declared: `gang = pyscheduler_gang.hooks`.
    entry_point: str = ""
    plugins: list[str] = attrs.Factory(list)
    #: Dialects of pod groups by name, and the plugin that each is offered for.
    dialects: dict[str, str] = attrs.Factory(dict)
    #: What it adds to batch profiles and PodGrouper: names by "system", "policy", "action", "queue dialect", "grouper".
    extensions: dict[str, list[str]] = attrs.Factory(dict)
    errors: list[str] = attrs.Factory(list)
    #: Left out on request; its hook was not called.
    blocked: bool = False

    def __str__(self) -> str:
        return f"{self.name} {self.version}".rstrip()


@attrs.frozen(kw_only=True)
class PluginDescription:
    """One plugin as `pyscheduler plugins` shows it. `error` says why it cannot be used; then the rest may be empty."""

    name: str
    distribution: str
    version: str
    #: `module:Class`.
    target: str
    extension_points: Sequence[ExtensionPoint] = ()
    args_type: type | None = None
    #: The keys of the args of a plugin without `args_type`, if the plugin names them.
    arg_names: Sequence[str] = ()
    #: First line of the class's docstring.
    summary: str = ""
    error: str = ""


@attrs.frozen
class _Offer:
    distribution: Distribution
    plugin: str | type[Plugin]

    @property
    def target(self) -> str:
        if isinstance(self.plugin, str):
            return self.plugin
        return f"{self.plugin.__module__}:{self.plugin.__qualname__}"

    def load(self, name: str) -> type[Plugin]:
        """Import the class; raise `ConfigError` saying whose plugin it is and why it does not load."""
        plugin = self.plugin
        if isinstance(plugin, str):
            found = _import(plugin, self._whose(name))
            if not (isinstance(found, type) and issubclass(found, Plugin)):
                raise ConfigError(f"{self._whose(name)} is not a class that inherits from pyscheduler.framework.Plugin")
            plugin = found
        if plugin.name != name:
            raise ConfigError(f'{self._whose(name)} calls itself "{plugin.name}"; register it under that name')
        return plugin

    def _whose(self, name: str) -> str:
        return f'plugin "{name}" of {self.distribution} ({self.target})'


@attrs.frozen
class _DialectOffer:
    distribution: Distribution
    name: str
    #: `module:ROW`.
    target: str
    claimed_by: str

    def load(self) -> Dialect:
        """Import the row; raise `ConfigError` saying whose dialect it is and why it is none."""
        whose = f'dialect "{self.name}" of {self.distribution} ({self.target})'
        row = _import(self.target, whose)
        if not isinstance(row, Dialect):
            raise ConfigError(f"{whose} is not a pyscheduler.podgroup.Dialect")
        if (row.name, row.claimed_by) != (self.name, self.claimed_by):
            says = f'calls itself "{row.name}", claimed by "{row.claimed_by}"'
            raise ConfigError(f'{whose}, claimed by "{self.claimed_by}", {says}; register it as it is')
        return row


class _Registrar:
    """The registry as the hook of a distribution sees it: it records what the distribution offers."""

    def __init__(self, registry: Registry, distribution: Distribution) -> None:
        self._registry = registry
        self._distribution = distribution

    def require_api(self, version: str) -> None:
        """Refuse a distribution that was written for another plugin API; raise `PluginError`."""
        parts = _API_VERSION.fullmatch(version) if isinstance(version, str) else None
        if parts is None:
            raise PluginError(f'require_api takes a version such as "{PLUGIN_API}", not {version!r}', plugin="")
        major, minor = (int(part) for part in PLUGIN_API.split("."))
        wanted = int(parts[1])
        if wanted > major or (wanted == major and int(parts[2]) > minor):
            remedy = "install a newer kube-pyscheduler"
        elif wanted < major:
            remedy = "install a newer version of the distribution"
        else:
            return
        raise PluginError(f"it needs plugin API {version}, and pyscheduler has {PLUGIN_API}; {remedy}", plugin="")

    def add(self, name: str, plugin: str | type[Plugin]) -> None:
        """Offer a plugin; raise `PluginError` for what can be none."""
        _check_offer(name, plugin)
        self._registry.offer(name, _Offer(self._distribution, plugin))
        self._distribution.plugins.append(name)

    def add_dialect(self, name: str, row: str, *, claimed_by: str) -> None:
        """Offer a dialect of pod groups; raise `PluginError` for what can be none."""
        _check_dialect(name, row, claimed_by)
        offer = _DialectOffer(self._distribution, name, row, claimed_by)
        self._registry.dialect_offers.append(offer)
        self._distribution.dialects[name] = claimed_by

    def add_system(self, name: str, system: str) -> None:
        """Offer a batch system; raise `PluginError` for what can be none."""
        self._extend("system", name, system)

    def add_batch(self, name: str, policy: str) -> None:
        """Offer a policy of batch profiles; raise `PluginError` for what can be none."""
        self._extend("policy", name, policy)

    def add_action(self, name: str, action: str) -> None:
        """Offer an action of batch profiles; raise `PluginError` for what can be none."""
        self._extend("action", name, action)

    def add_queue_dialect(self, name: str, row: str) -> None:
        """Offer a dialect of queues; raise `PluginError` for what can be none."""
        self._extend("queue dialect", name, row)

    def add_grouper(self, name: str, row: str) -> None:
        """Offer the rule of a workload kind; raise `PluginError` for what can be none."""
        self._extend("grouper", name, row)

    def _extend(self, what: str, name: object, target: object) -> None:
        offers = self._registry.extension_offers[what]
        if not isinstance(name, str) or not name:
            raise PluginError(f"the name of a batch {what} is a text, not {name!r}", plugin="")
        if not isinstance(target, str) or not all(target.partition(":")):
            raise PluginError(f'batch {what} "{name}" is named as "module:Name", not {target!r}', plugin="")
        known = offers.setdefault(name, Offer(str(self._distribution), target))
        if known.target != target:
            raise PluginError(f'batch {what} "{name}" is offered by {known.distribution} already', plugin="")
        self._distribution.extensions.setdefault(what, []).append(name)


class Registry(_Registrar):
    """Plugins by name. `distributions` are those that discovery found, in its order, broken ones included.

    What is added to the registry itself comes with no distribution.
    """

    def __init__(self) -> None:
        super().__init__(self, Distribution(name=_DIRECT))
        self.distributions: list[Distribution] = []
        self._offers: dict[str, list[_Offer]] = {}
        self.dialect_offers: list[_DialectOffer] = []
        self.extension_offers: dict[str, dict[str, Offer]] = {
            "system": {},
            "policy": {},
            "action": {},
            "queue dialect": {},
            "grouper": {},
        }
        self._loaded: dict[str, type[Plugin]] = {}

    def replace(self, name: str, plugin: type[Plugin]) -> None:
        """Use this class for a plugin, whatever distributions offer under the name."""
        self._offers.pop(name, None)
        self.add(name, plugin)

    def extensions(self) -> Extensions:
        """Return what distributions add to plugins of others."""
        return Extensions(*self.extension_offers.values())

    def dialects_for(self, plugin: str) -> list[Dialect]:
        """Return the dialects that are offered for a plugin to serve, importing them now.

        Raises `ConfigError` with one line for the first that does not import, or is not what it was offered as.
        """
        return [offer.load() for offer in self.dialect_offers if offer.claimed_by == plugin]

    def dialect_table(self, warn: Callable[[str], object] | None = None) -> DialectTable:
        """Return the built-in dialects and all that are offered, importing them now.

        A row that cannot be used is left out; `warn` gets one line about it (default: the log).
        """
        table = DialectTable()
        for offer in self.dialect_offers:
            try:
                table.add_dialect(offer.load())
            except ConfigError as error:
                (warn or _log.warning)(str(error))
        return table

    def registrar(self, distribution: Distribution) -> _Registrar:
        """Return what the hook of `distribution` may add to."""
        return _Registrar(self, distribution)

    def offer(self, name: str, offer: _Offer) -> None:
        """Keep the offer of a plugin."""
        offers = self._offers.setdefault(name, [])
        # The same class twice is no conflict: a test may add the class that its own package registers.
        if all(offer.target != other.target for other in offers):
            offers.append(offer)
            self._loaded.pop(name, None)

    def __contains__(self, name: str) -> bool:
        return name in self._offers

    def names(self) -> list[str]:
        """Return the names of all plugins, sorted; broken and ambiguous ones included."""
        return sorted(self._offers)

    def owner(self, name: str) -> str:
        """Return the distribution that offers the plugin, with its version; "" if nobody does."""
        return " and ".join(str(offer.distribution) for offer in self._offers.get(name, ()))

    def load(self, name: str) -> type[Plugin]:
        """Return the class of the plugin called `name`, importing it now.

        Raises `ConfigError` with one line where nobody offers it, where several do, or where it does not import.
        """
        found = self._loaded.get(name)
        if found is None:
            offers = self._offers.get(name)
            if offers is None:
                raise ConfigError(f'plugin "{name}" does not exist{self.hint(name)}')
            if len(offers) > 1:
                raise ConfigError(_ambiguous(name, offers))
            found = self._loaded[name] = offers[0].load(name)
        return found

    def args_type(self, name: str) -> type | None:
        """Return the class of the args that the plugin takes; None where it takes none, or cannot be loaded."""
        try:
            return self.load(name).args_type
        except ConfigError:
            return None

    def describe(self) -> list[PluginDescription]:
        """Describe every plugin, sorted by name. Imports them all; those that fail say so in `error`."""
        return [self._describe(name, offer) for name in self.names() for offer in self._offers[name]]

    def _describe(self, name: str, offer: _Offer) -> PluginDescription:
        blank = PluginDescription(
            name=name,
            distribution=offer.distribution.name,
            version=offer.distribution.version,
            target=offer.target,
        )
        offers = self._offers[name]
        try:
            plugin = offer.load(name)
        except ConfigError as error:
            return attrs.evolve(blank, error=str(error))
        return attrs.evolve(
            blank,
            extension_points=extension_points_of(plugin),
            args_type=plugin.args_type,
            arg_names=plugin.arg_names,
            summary=(plugin.__doc__ or "").strip().partition("\n")[0],
            error=_ambiguous(name, offers) if len(offers) > 1 else "",
        )

    def hint(self, name: str) -> str:
        """Return what may be wrong with a name that is not offered, to follow a message; "" if nothing is known.

        It is the most similar name, and the distributions that are broken or blocked: one may offer the plugin.
        """
        close = difflib.get_close_matches(name, self._offers, n=1)
        question = f', did you mean "{close[0]}"?' if close else ""
        broken = [f"{each} is broken: {each.errors[0]}" for each in self.distributions if each.errors]
        blocked = [f"{each} is blocked" for each in self.distributions if each.blocked]
        hints = [*broken, *blocked]
        return question + (f" ({'; '.join(hints)})" if hints else "")


def _ambiguous(name: str, offers: Sequence[_Offer]) -> str:
    whose = " and ".join(f"{offer.distribution} ({offer.target})" for offer in offers)
    # A test cannot block a distribution, and its class is easily renamed.
    is_own = any(offer.distribution.name == _DIRECT for offer in offers)
    remedy = "give the class of this program another name" if is_own else "uninstall or block one of them"
    return f'plugin "{name}" is offered by {whose}; {remedy}'


def _import(target: str, whose: str) -> object:
    """Return what `module:path` names; raise `ConfigError` where there is no such thing."""
    module, _, path = target.partition(":")
    try:
        found: object = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    # A module that exits while it is imported must not take the scheduler along.
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{whose} cannot be loaded: {one_line(error)}") from error
    return found


def _check_dialect(name: object, row: object, claimed_by: object) -> None:
    """Raise `PluginError` unless a dialect can be registered like this."""
    if not (isinstance(name, str) and name and isinstance(claimed_by, str) and claimed_by):
        text = f"is registered under {name!r}, claimed by {claimed_by!r}; expected two names"
        raise PluginError(f"a dialect of pod groups {text}", plugin="")
    module, separator, path = row.partition(":") if isinstance(row, str) else ("", "", "")
    if not (module and separator and path):
        raise PluginError(f'dialect "{name}" is registered as {row!r}; expected "module:ROW"', plugin="")


def _check_offer(name: object, plugin: object) -> None:
    """Raise `PluginError` unless a plugin can be registered like this. Hooks are others' code: types prove nothing."""
    if not isinstance(name, str) or not name:
        raise PluginError(f"a plugin is registered under {name!r}; expected its name", plugin="")
    if isinstance(plugin, str):
        module, separator, path = plugin.partition(":")
        if not (module and separator and path):
            raise PluginError(f'plugin "{name}" is registered as {plugin!r}; expected "module:Class"', plugin=name)
    elif not (isinstance(plugin, type) and issubclass(plugin, Plugin)):
        raise PluginError(
            f'plugin "{name}" is registered as {plugin!r}; expected "module:Class" or a class inheriting from Plugin',
            plugin=name,
        )
