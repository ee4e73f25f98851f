"""Indexes of the nodes whose pods use a host port, a volume claim or affinity terms."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.framework.node_info import HostPorts, NodeInfo

__all__ = ["ClaimIndex", "PortIndex", "RowSet"]

_ANY_IP: Final = "0.0.0.0"  # noqa: S104 - the wildcard address of host ports, nothing is bound to it
_NO_IP: Final = ""
_NO_ROWS: Final[NDArray[np.int64]] = np.zeros(0, dtype=np.int64)
_NO_ROWS.flags.writeable = False


class RowSet:
    """A set of rows that is always in ascending order."""

    __slots__ = ("_members", "rows")

    def __init__(self) -> None:
        self.rows: list[int] = []
        self._members: set[int] = set()

    def put(self, row: int, *, member: bool) -> None:
        """Have the row in the set or not."""
        if member is (row in self._members):
            return
        if member:
            self._members.add(row)
            insort(self.rows, row)
        else:
            self._members.discard(row)
            del self.rows[bisect_left(self.rows, row)]

    def move(self, source: int, target: int) -> None:
        """Let `target` be what `source` was, and `source` be no member."""
        self.put(target, member=source in self._members)
        self.remove(source)

    def remove(self, row: int) -> None:
        """Let the row be no member."""
        self.put(row, member=False)

    def check_invariants(self, expected: Sequence[int]) -> None:
        """Raise AssertionError unless the members are `expected`, in that order."""
        assert self.rows == list(expected), f"rows are {self.rows}, not {list(expected)}"
        assert self._members == set(expected), "members differ from rows"


class PortIndex:
    """Rows by host port: protocol and number, then address."""

    __slots__ = ("_arrays", "_of_row", "_rows")

    def __init__(self) -> None:
        self._rows: dict[tuple[str, int], dict[str, set[int]]] = {}
        self._of_row: dict[int, frozenset[tuple[str, str, int]]] = {}
        # Answers given before, for ports that have not changed since.
        self._arrays: dict[tuple[str, int], dict[str, NDArray[np.int64]]] = {}

    def put(self, row: int, ports: HostPorts) -> None:
        """Bring a row up to date."""
        if ports or row in self._of_row:
            self._set(row, frozenset(ports))

    def move(self, source: int, target: int) -> None:
        """Give the ports of row `source` to row `target`, whose own are dropped."""
        ports = self._of_row.get(source, frozenset())
        self.remove(source)
        self._set(target, ports)

    def remove(self, row: int) -> None:
        """Drop the ports of a row."""
        self._set(row, frozenset())

    def conflicts(self, ip: str, protocol: str, port: int) -> NDArray[np.int64]:
        """Return the rows, ascending and read-only, on which a pod asking for the port would clash."""
        key = (protocol, port)
        addresses = self._rows.get(key)
        if addresses is None:
            return _NO_ROWS
        if ip not in addresses and ip != _ANY_IP:
            ip = _NO_IP  # one answer for all addresses that nobody uses, so that asking leaves nothing behind
        answers = self._arrays.setdefault(key, {})
        answer = answers.get(ip)
        if answer is None:
            wanted = addresses if ip == _ANY_IP else (ip, _ANY_IP)
            rows: set[int] = set().union(*(addresses.get(each, ()) for each in wanted))
            answer = np.fromiter(rows, dtype=np.int64, count=len(rows))
            answer.sort()
            answer.flags.writeable = False
            answers[ip] = answer
        return answer

    def _set(self, row: int, ports: frozenset[tuple[str, str, int]]) -> None:
        before = self._of_row.get(row, frozenset())
        if ports == before:
            return
        for ip, protocol, port in before - ports:
            key = (protocol, port)
            addresses = self._rows[key]
            addresses[ip].discard(row)
            self._arrays.pop(key, None)
            if not addresses[ip]:
                del addresses[ip]
                if not addresses:
                    del self._rows[key]
        for ip, protocol, port in ports - before:
            key = (protocol, port)
            self._rows.setdefault(key, {}).setdefault(ip, set()).add(row)
            self._arrays.pop(key, None)
        if ports:
            self._of_row[row] = ports
        else:
            self._of_row.pop(row, None)

    def check_invariants(self, infos: Sequence[NodeInfo]) -> None:
        """Raise AssertionError unless the index is that of `infos`."""
        rows: dict[tuple[str, int], dict[str, set[int]]] = {}
        for row, info in enumerate(infos):
            for ip, protocol, port in info.used_ports:
                rows.setdefault((protocol, port), {}).setdefault(ip, set()).add(row)
        assert rows == self._rows, "rows per host port"
        assert self._of_row == {
            row: frozenset(info.used_ports) for row, info in enumerate(infos) if len(info.used_ports)
        }, "host ports per row"
        assert self._arrays.keys() <= rows.keys(), "answers are kept for ports that nobody uses"
        for (protocol, port), answers in self._arrays.items():
            for ip, answer in answers.items():
                naive = [row for row, info in enumerate(infos) if info.used_ports.conflicts(ip, protocol, port)]
                assert answer.tolist() == naive, f"conflicts with {protocol} {ip}:{port}"


class ClaimIndex:
    """The number of nodes with pods that use a claim, by `namespace/name`."""

    __slots__ = ("_nodes", "_of_row")

    def __init__(self) -> None:
        self._nodes: dict[str, int] = {}
        self._of_row: dict[int, frozenset[str]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._nodes

    def put(self, row: int, claims: Mapping[str, int]) -> None:
        """Bring a row up to date."""
        before = self._of_row.get(row)
        if before is None:
            if not claims:
                return
            before = frozenset()
        elif claims.keys() == before:
            return
        now = frozenset(claims)
        for key in now - before:
            self._nodes[key] = self._nodes.get(key, 0) + 1
        for key in before - now:
            self._nodes[key] -= 1
            if self._nodes[key] == 0:
                del self._nodes[key]
        if now:
            self._of_row[row] = now
        else:
            del self._of_row[row]

    def move(self, source: int, target: int) -> None:
        """Give the claims of row `source` to row `target`, whose own are dropped."""
        self.remove(target)
        claims = self._of_row.pop(source, None)
        if claims is not None:
            self._of_row[target] = claims

    def remove(self, row: int) -> None:
        """Drop the claims of a row."""
        self.put(row, {})

    def check_invariants(self, infos: Sequence[NodeInfo]) -> None:
        """Raise AssertionError unless the index is that of `infos`."""
        nodes: dict[str, int] = {}
        for info in infos:
            for key in info.pvc_ref_counts:
                nodes[key] = nodes.get(key, 0) + 1
        assert nodes == self._nodes, "nodes per claim"
        assert self._of_row == {
            row: frozenset(info.pvc_ref_counts) for row, info in enumerate(infos) if info.pvc_ref_counts
        }, "claims per row"
