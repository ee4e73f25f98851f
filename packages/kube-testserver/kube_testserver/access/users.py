"""Users as the API server knows them: their names and groups, and special names such as `system:masters`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

__all__ = [
    "ADMIN",
    "ANONYMOUS",
    "AUTHENTICATED",
    "LOOPBACK",
    "MASTERS",
    "UNAUTHENTICATED",
    "User",
    "account_groups",
    "account_user_name",
    "split_account_name",
    "with_authenticated",
]

AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
#: Its members may do anything, whatever the roles say.
MASTERS: Final = "system:masters"
_ACCOUNT_PREFIX: Final = "system:serviceaccount:"
_ACCOUNTS: Final = "system:serviceaccounts"


class User(msgspec.Struct, frozen=True):
    """Somebody a request is made for; `extra` is what the credential says beside name and groups."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}

    def as_info(self) -> dict[str, Any]:
        """Return the user as the `UserInfo` of a review, without what is empty."""
        info: dict[str, Any] = {"username": self.name, "uid": self.uid, "groups": list(self.groups)}
        info["extra"] = {key: list(values) for key, values in self.extra.items()}
        return {key: value for key, value in info.items() if value}


#: Whoever brings no credentials.
ANONYMOUS: Final = User("system:anonymous", groups=(UNAUTHENTICATED,))
#: The server itself, and whoever shares its process and says nothing else.
LOOPBACK: Final = User("system:apiserver", groups=(MASTERS, AUTHENTICATED))
#: Whom `pyscheduler cluster` writes a kubeconfig for, named as kubeadm names its own.
ADMIN: Final = User("kubernetes-admin", groups=(MASTERS, AUTHENTICATED))


def account_user_name(namespace: str, name: str) -> str:
    """Return the user name of a service account."""
    return f"{_ACCOUNT_PREFIX}{namespace}:{name}"


def account_groups(namespace: str) -> tuple[str, ...]:
    """Return the groups that every service account of a namespace is in."""
    return (_ACCOUNTS, f"{_ACCOUNTS}:{namespace}")


def split_account_name(user_name: str) -> tuple[str, str] | None:
    """Return namespace and name of the service account behind a user name, None where it is none."""
    if not user_name.startswith(_ACCOUNT_PREFIX):
        return None
    parts = user_name.removeprefix(_ACCOUNT_PREFIX).split(":")
    return (parts[0], parts[1]) if len(parts) == 2 and all(parts) else None


def with_authenticated(user: User) -> User:
    """Return the user in the group of all who are known, unless their groups say already which kind they are."""
    if user.name == ANONYMOUS.name or AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
        return user
    return msgspec.structs.replace(user, groups=(*user.groups, AUTHENTICATED))
