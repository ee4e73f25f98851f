"""The FGD paper's experiment as plain arithmetic, to compare the plugins with.

It shares no code with the plugins and the lab. A node is an array with the free thousandths of its devices, a task is
tried on each node, and each policy is its definition, with frequencies as exact fractions.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np

__all__ = ["Model"]


class Model:
    """Nodes as (name, cpu, memory, gpus, model); tasks as (cpu, memory, gpus, milli, models).

    Of nodes with equal scores, the first one by name is chosen.
    """

    def __init__(self, nodes: list[tuple[Any, ...]], tasks: list[tuple[Any, ...]]) -> None:
        self.nodes = nodes
        rank = {node: at for at, node in enumerate(sorted(nodes))}
        self.rank = [rank[node] for node in nodes]
        self.cpu = np.array([node[1] for node in self.nodes])
        self.memory = np.array([node[2] for node in self.nodes])
        self.free = [np.full(node[3], 1000) for node in self.nodes]
        self.classes: list[set[str]] = [set() for _ in self.nodes]
        counts = Counter((task[0], task[3] if task[2] else 0, task[2], task[4] if task[2] else ()) for task in tasks)
        ranked = sorted(counts.items(), key=lambda item: (item[1], item[0][:3]), reverse=True)
        taken, self.typical = 0, []
        for kind, count in ranked:
            if taken * 100 >= 95 * len(tasks):
                break
            taken += count
            self.typical.append((kind, count))
        self.total = taken
        #: The answers of `score` and `fgd`, which depend on the state of the node and the task. A model has one policy.
        self.scored: dict[tuple[Any, ...], int] = {}
        self.tried: dict[tuple[Any, ...], tuple[int, list[int]]] = {}

    def fragmentation(self, cpu: int, free: np.ndarray, model: str) -> Fraction:
        """Return F of the paper for one node."""
        result, parts = 0, free.tolist()
        for (task_cpu, milli, gpus, models), count in self.typical:
            enough = sum(part >= milli for part in parts) >= gpus
            fits = gpus > 0 and cpu >= task_cpu and enough and (not models or model in models)
            result += count * (sum(part for part in parts if part < milli) if fits else sum(parts))
        return Fraction(result, self.total)

    def fits(self, node: int, task: tuple[Any, ...]) -> bool:
        """Return whether a node has room for a task."""
        cpu, memory, gpus, milli, models = task
        if self.cpu[node] < cpu or self.memory[node] < memory:
            return False
        return not gpus or (
            (not models or self.nodes[node][4] in models) and bool((self.free[node] >= milli).sum() >= gpus)
        )

    def tightest(self, node: int, task: tuple[Any, ...]) -> list[int]:
        """Return the devices with the least sufficient free part; whole ones by number."""
        fitting = [(free, number) for number, free in enumerate(self.free[node].tolist()) if free >= task[3]]
        return [number for _, number in sorted(fitting)[: task[2]]]

    def after(self, node: int, task: tuple[Any, ...], devices: list[int]) -> np.ndarray:
        """Return the free parts of a node once the task has these devices."""
        left = self.free[node].copy()
        left[devices] -= task[3]
        return left

    def fgd(self, node: int, task: tuple[Any, ...]) -> tuple[int, list[int]]:
        """Return the score of a node, and the devices that give it."""
        state = (int(self.cpu[node]), tuple(self.free[node].tolist()), self.nodes[node][4], task)
        if state not in self.tried:
            self.tried[state] = self._fgd(node, task)
        return self.tried[state]

    def _fgd(self, node: int, task: tuple[Any, ...]) -> tuple[int, list[int]]:
        before = self.fragmentation(self.cpu[node], self.free[node], self.nodes[node][4])
        shares = task[2] == 1 and task[3] < 1000
        tried = [[number] for number, free in enumerate(self.free[node]) if free >= task[3]] if shares else []
        best, chosen = -1, []
        for devices in tried or [self.tightest(node, task)]:
            left = self.after(node, task, devices)
            after = self.fragmentation(self.cpu[node] - task[0], left, self.nodes[node][4])
            score = int(100 / (1 + math.exp(-float(before - after) / 1000)))
            if score > best:
                best, chosen = score, devices
        return best, chosen

    def score(self, policy: str, node: int, task: tuple[Any, ...]) -> int:
        """Return the score of a node under a policy other than FGD."""
        state = (int(self.cpu[node]), tuple(self.free[node].tolist()), tuple(sorted(self.classes[node])), task)
        if state not in self.scored:
            self.scored[state] = self._score(policy, node, task)
        return self.scored[state]

    def _score(self, policy: str, node: int, task: tuple[Any, ...]) -> int:
        cpu, gpus, milli = task[0], task[2], task[3]
        free, left = int(self.free[node].sum()), int(self.cpu[node])
        if policy == "DotProd":
            dot = Fraction(left * cpu, 128000**2) + Fraction(free * gpus * milli, 8000**2)
            return math.floor(100 * (1 - dot / 2))
        if policy == "BestFit":
            rest = Fraction(left - cpu, 128000) + Fraction(free - gpus * milli, 8000)
            return math.floor(100 * (1 - rest / 2))
        if not gpus:
            return 0
        if policy == "GpuClustering":
            here, own = self.classes[node], self.class_of(task)
            base = 25 if not here else 75 if here == {own} else 50 if own in here else 0
            return base + 25 * (8000 - free) // 8000
        number = len(self.free[node])
        if (self.free[node] == 1000).all():
            return max(33 - number, number)
        used = [int(self.free[node][device]) for device in self.tightest(node, task)]
        new = used.count(1000)
        if new:
            return max(50 - new, 33)
        return max(100 - sum(each // 10 for each in used) // 10, 50)

    @staticmethod
    def class_of(task: tuple[Any, ...]) -> str:
        """Return the class of a task with GPUs."""
        return "shared" if task[3] < 1000 else f"{task[2]} GPUs"

    def place(self, policy: str, task: tuple[Any, ...]) -> int:
        """Place a task; return the number of its node, -1 if it fits nowhere."""
        nodes = [node for node in range(len(self.nodes)) if self.fits(node, task)]
        if not nodes:
            return -1
        devices: list[int] | None = None
        if policy == "FGD":
            found = {node: self.fgd(node, task) for node in nodes}
            best = max(nodes, key=lambda node: (found[node][0], -self.rank[node]))
            devices = found[best][1]
        else:
            scores = {node: self.score(policy, node, task) for node in nodes}
            if policy == "BestFit":
                least, most = min(scores.values()), max(scores.values())
                width = max(most - least, 1)
                scores = {node: (each - least) * 100 // width for node, each in scores.items()}
            best = max(nodes, key=lambda node: (scores[node], -self.rank[node]))
        self.take(best, task, self.tightest(best, task) if devices is None else devices)
        return best

    def take(self, node: int, task: tuple[Any, ...], devices: list[int]) -> None:
        """Give a task these devices of a node."""
        self.cpu[node] -= task[0]
        self.memory[node] -= task[1]
        if task[2]:
            self.free[node][devices] -= task[3]
            self.classes[node].add(self.class_of(task))
