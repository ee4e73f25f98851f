"""A node with more pods than one would search through: it is noted where each stands."""

from __future__ import annotations

import random
from collections import Counter

from pyscheduler.framework import NodeInfo, PodInfo
from pyscheduler.testing import make_node, make_pod


def test_pods_are_found_where_they_were_put() -> None:
    """The order is that of a plain list in which the last pod takes the place of one that goes, at any size."""
    infos = [PodInfo.of(make_pod(f"p{number}")) for number in range(150)]
    rng, fired = random.Random(1), Counter[str]()
    for _ in range(6):
        node, plain = NodeInfo.of(make_node("n")), list[PodInfo]()
        for _ in range(750):
            what = rng.choice(["add", "add", "add", "remove", "remove", "replace", "clone"])
            info = rng.choice(infos)
            known = info in plain
            place = plain.index(info) if known else -1
            if what == "add" and not known:
                node.add_pod(info)
                plain.append(info)
            elif what == "remove":
                assert node.remove_pod(info.pod.uid) is (info if known else None)
                if known:
                    last = plain.pop()
                    if last is not info:
                        plain[place] = last
            elif what == "replace" and known:
                assert node.replace_pod(info) == (place != len(plain) - 1)
                plain[place], plain[-1] = plain[-1], info
            elif what == "clone":
                node = node.clone()
            else:
                continue
            fired[what] += 1
            fired["noted"] += len(node._places)
            assert node.pods == plain
            assert all(node.pods[at].pod.uid == uid for uid, at in node._places.items())
    print(dict(fired))  # noqa: T201 - how often each happened
    assert all(fired[name] > 50 for name in ("add", "remove", "replace", "clone", "noted"))
