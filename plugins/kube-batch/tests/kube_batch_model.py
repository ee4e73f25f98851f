"""A model of kube-batch's session in plain Python: one task, one node, one resource at a time.

Written from the rules of kube-batch (`pkg/scheduler`), not from the session that it checks. Of equal nodes it takes the
first, and nodes have no scores.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

Amounts = dict[str, float]
NAMES = ("cpu", "memory")
TOLERANCE = {"cpu": 10.0, "memory": 10 * 1024.0 * 1024.0}
ALLOCATED = {"Allocated", "Binding", "Running"}


def less_equal(left: Amounts, right: Amounts) -> bool:
    """Return whether `left` is at most `right`, within kube-batch's tolerances."""
    return all(left[name] < right[name] or abs(left[name] - right[name]) < TOLERANCE[name] for name in NAMES)


class Model:
    """The state of a session, and its actions."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.nodes = {
            node["name"]: {name: float(node["allocatable"][name]) for name in NAMES} for node in case["nodes"]
        }
        self.places = {node["name"]: node["allocatable"]["pods"] for node in case["nodes"]}
        self.queues = {queue["name"]: queue for queue in case["queues"]}
        self.jobs = {group["name"]: {**group, "tasks": []} for group in case["podGroups"]}
        self.bound: list[str] = []
        self.evicted: list[str] = []
        for pod in case["pods"]:
            task = {
                **pod,
                "request": {name: float(pod["requests"].get(name, 0.0)) for name in NAMES},
                "priority": pod.get("priority", 1),
                "node": pod.get("node"),
            }
            self.jobs[pod["group"]]["tasks"].append(task)
        valid = {"Pending", "Running", "Succeeded"}
        self.jobs = {
            name: job
            for name, job in self.jobs.items()
            if sum(task["state"] in valid for task in job["tasks"]) >= job["minMember"]
        }
        groups = {group["name"]: group["queue"] for group in case["podGroups"]}
        # Jobs that are not valid are not scheduled, and their pods are no victims, but they count in their queue.
        self.foreign = [
            {**task, "queue": groups[task["group"]]} for task in self._all(case) if task["group"] not in self.jobs
        ]
        self.total = {name: sum(node[name] for node in self.nodes.values()) for name in NAMES}
        self.deserved = self._divide()

    def _all(self, case: dict[str, Any]) -> list[dict[str, Any]]:
        found = []
        for pod in case["pods"]:
            request = {name: float(pod["requests"].get(name, 0.0)) for name in NAMES}
            found.append({**pod, "request": request, "node": pod.get("node")})
        return found

    # Figures.

    def tasks(self) -> list[dict[str, Any]]:
        return [task for job in self.jobs.values() for task in job["tasks"]] + self.foreign

    def used(self, node: str, states: set[str]) -> Amounts:
        there = [task for task in self.tasks() if task["node"] == node and task["state"] in states]
        return {name: sum(task["request"][name] for task in there) for name in NAMES}

    def idle(self, node: str) -> Amounts:
        used = self.used(node, ALLOCATED | {"Terminating"})
        return {name: self.nodes[node][name] - used[name] for name in NAMES}

    def releasing(self, node: str) -> Amounts:
        leaving, promised = self.used(node, {"Terminating"}), self.used(node, {"Pipelined"})
        return {name: leaving[name] - promised[name] for name in NAMES}

    def has_place(self, node: str) -> bool:
        # The filters see evicted pods gone and placed pods there; pods that were terminating before are still there.
        there = sum(
            task["node"] == node and task["state"] not in {"Pending", "Succeeded", "Failed"} for task in self.tasks()
        )
        gone = sum(task["node"] == node and task["name"] in self.evicted_now for task in self.tasks())
        return there - gone < self.places[node]

    @property
    def evicted_now(self) -> set[str]:
        return {task["name"] for task in self.tasks() if task.get("was_evicted")}

    def count(self, job: dict[str, Any], states: set[str]) -> int:
        return sum(task["state"] in states for task in job["tasks"])

    def ready(self, job: dict[str, Any]) -> bool:
        return self.count(job, ALLOCATED | {"Succeeded"}) >= job["minMember"]

    def pipelined(self, job: dict[str, Any]) -> bool:
        return self.count(job, ALLOCATED | {"Succeeded", "Pipelined"}) >= job["minMember"]

    def held(self, tasks: list[dict[str, Any]]) -> Amounts:
        active = [task for task in tasks if task["state"] in ALLOCATED | {"Pipelined"}]
        return {name: sum(task["request"][name] for task in active) for name in NAMES}

    def queue_held(self, queue: str) -> Amounts:
        mine = [task for job in self.jobs.values() if job["queue"] == queue for task in job["tasks"]]
        return self.held(mine + [task for task in self.foreign if task["queue"] == queue])

    def job_share(self, held: Amounts) -> float:
        return max((held[name] / self.total[name] for name in NAMES if self.total[name] >= TOLERANCE[name]), default=0)

    def queue_share(self, queue: str) -> float:
        held, deserved = self.queue_held(queue), self.deserved[queue]
        return max((held[name] / deserved[name] for name in NAMES if deserved[name] >= TOLERANCE[name]), default=0)

    def overused(self, queue: str) -> bool:
        return less_equal(self.deserved[queue], self.queue_held(queue))

    def _divide(self) -> dict[str, Amounts]:
        request = {}
        for job in self.jobs.values():
            counted = [task for task in job["tasks"] if task["state"] in ALLOCATED | {"Pending"}]
            old = request.setdefault(job["queue"], dict.fromkeys(NAMES, 0.0))
            for task in counted:
                for name in NAMES:
                    old[name] += task["request"][name]
        for task in self.foreign:
            if task["queue"] in request and task["state"] in ALLOCATED:
                for name in NAMES:
                    request[task["queue"]][name] += task["request"][name]
        deserved = {queue: dict.fromkeys(NAMES, 0.0) for queue in request}
        remaining, met = dict(self.total), set()
        while unmet := [queue for queue in request if queue not in met]:
            weights = sum(self.queues[queue]["weight"] for queue in unmet)
            spent = dict.fromkeys(NAMES, 0.0)
            for queue in unmet:
                part = self.queues[queue]["weight"] / weights
                new = {name: deserved[queue][name] + remaining[name] * part for name in NAMES}
                if all(request[queue][name] < new[name] for name in NAMES):
                    new = {name: min(new[name], request[queue][name]) for name in NAMES}
                    met.add(queue)
                for name in NAMES:
                    spent[name] += new[name] - deserved[queue][name]
                deserved[queue] = new
            remaining = {name: remaining[name] - spent[name] for name in NAMES}
            if all(remaining[name] < TOLERANCE[name] for name in NAMES):
                break
        return deserved

    # Orders: by the policies priority, gang, drf, and by share for queues.

    def job_less(self, left: dict[str, Any], right: dict[str, Any]) -> bool:
        def key(job: dict[str, Any]) -> tuple[Any, ...]:
            return (-job["priority"], self.ready(job), self.job_share(self.held(job["tasks"])), job["created"])

        return (*key(left), f"ns/{left['name']}") < (*key(right), f"ns/{right['name']}")

    def queue_less(self, left: str, right: str) -> bool:
        first = (self.queue_share(left), self.queues[left]["created"], left)
        return first < (self.queue_share(right), self.queues[right]["created"], right)

    @staticmethod
    def task_key(task: dict[str, Any]) -> tuple[Any, ...]:
        return (-task["priority"], task["created"], task["name"])

    def pending(self, job: dict[str, Any], *, best_effort: bool | None = None) -> list[dict[str, Any]]:
        found = [task for task in job["tasks"] if task["state"] == "Pending"]
        if best_effort is not None:
            found = [task for task in found if self.is_best_effort(task) == best_effort]
        return sorted(found, key=self.task_key)

    @staticmethod
    def is_best_effort(task: dict[str, Any]) -> bool:
        return all(task["request"][name] < TOLERANCE[name] for name in NAMES)

    # Steps.

    def allocate_on(self, job: dict[str, Any], task: dict[str, Any], node: str) -> None:
        task["state"], task["node"] = "Allocated", node
        if self.ready(job):
            for each in job["tasks"]:
                if each["state"] == "Allocated":
                    each["state"] = "Binding"
                    self.bound.append(each["name"])

    def evict(self, task: dict[str, Any]) -> None:
        task["state"], task["was_evicted"] = "Terminating", True

    def allocate(self) -> None:
        heap = Heap(self.queue_less, [])
        jobs: dict[str, Heap] = {}
        left: dict[str, list[dict[str, Any]]] = {}
        for job in self.jobs.values():
            heap.push(job["queue"])
            jobs.setdefault(job["queue"], Heap(self.job_less, [])).push(job)
        while heap.items:
            queue = heap.pop()
            if self.overused(queue) or not jobs[queue].items:
                continue
            job = jobs[queue].pop()
            tasks = left.setdefault(job["name"], self.pending(job, best_effort=False))
            while tasks:
                task = tasks.pop(0)
                fitting = [
                    node
                    for node in self.nodes
                    if self.has_place(node)
                    and (
                        less_equal(task["request"], self.idle(node))
                        or less_equal(task["request"], self.releasing(node))
                    )
                ]
                if not fitting:
                    break
                if less_equal(task["request"], self.idle(fitting[0])):
                    self.allocate_on(job, task, fitting[0])
                else:
                    task["state"], task["node"] = "Pipelined", fitting[0]
                if self.ready(job) and tasks:
                    jobs[queue].push(job)
                    break
            heap.push(queue)

    def backfill(self) -> None:
        for job in self.jobs.values():
            for task in job["tasks"]:
                if task["state"] == "Pending" and self.is_best_effort(task):
                    node = next((node for node in self.nodes if self.has_place(node)), None)
                    if node is not None:
                        self.allocate_on(job, task, node)

    def _gang_allows(self, task: dict[str, Any]) -> bool:
        job = self.jobs[task["group"]]
        return job["minMember"] <= self.count(job, ALLOCATED | {"Succeeded"}) - 1 or job["minMember"] == 1

    def _combine(self, tiers: list[list[Callable[[list[Any]], list[Any]]]], found: list[Any]) -> list[Any]:
        victims: list[Any] | None = None
        for tier in tiers:
            for answer in tier:
                mine = answer(found)
                victims = mine if victims is None else [task for task in victims if task in mine]
            if victims:
                return victims
        return []

    def _preemptable(self, claim: dict[str, Any], found: list[Any]) -> list[Any]:
        job = self.jobs[claim["group"]]

        def priority(found: list[Any]) -> list[Any]:
            return [task for task in found if self.jobs[task["group"]]["priority"] < job["priority"]]

        def gang(found: list[Any]) -> list[Any]:
            return [task for task in found if self._gang_allows(task)]

        def drf(found: list[Any]) -> list[Any]:
            held = self.held(job["tasks"])
            mine = self.job_share({name: held[name] + claim["request"][name] for name in NAMES})
            left: dict[str, Amounts] = {}
            victims = []
            for task in found:
                rest = left.setdefault(task["group"], self.held(self.jobs[task["group"]]["tasks"]))
                for name in NAMES:
                    rest[name] -= task["request"][name]
                theirs = self.job_share(rest)
                if mine < theirs or abs(mine - theirs) <= 1e-6:
                    victims.append(task)
            return victims

        return self._combine([[priority, gang], [drf]], found)

    def _reclaimable(self, found: list[Any]) -> list[Any]:
        def gang(found: list[Any]) -> list[Any]:
            return [task for task in found if self._gang_allows(task)]

        def proportion(found: list[Any]) -> list[Any]:
            left: dict[str, Amounts] = {}
            victims = []
            for task in found:
                queue = self.jobs[task["group"]]["queue"]
                rest = left.setdefault(queue, self.queue_held(queue))
                for name in NAMES:
                    rest[name] -= task["request"][name]
                if less_equal(self.deserved[queue], rest):
                    victims.append(task)
            return victims

        return self._combine([[gang], [proportion]], found)

    def _running_on(self, node: str, accept: Callable[[dict[str, Any], dict[str, Any]], bool]) -> list[Any]:
        return [
            task
            for job in self.jobs.values()
            for task in job["tasks"]
            if task["node"] == node and task["state"] == "Running" and accept(job, task)
        ]

    def _take(self, claim: dict[str, Any], victims: list[Any], node: str) -> bool:
        total = {name: sum(task["request"][name] for task in victims) for name in NAMES}
        if not victims or not less_equal(claim["request"], total):
            return False
        freed = dict.fromkeys(NAMES, 0.0)
        for task in victims:
            self.evict(task)
            freed = {name: freed[name] + task["request"][name] for name in NAMES}
            if less_equal(claim["request"], freed):
                break
        claim["state"], claim["node"] = "Pipelined", node
        return True

    def reclaim(self) -> None:
        heap = Heap(self.queue_less, list(dict.fromkeys(job["queue"] for job in self.jobs.values())))
        jobs: dict[str, Heap] = {}
        for job in self.jobs.values():
            if self.pending(job):
                jobs.setdefault(job["queue"], Heap(self.job_less, [])).push(job)
        while heap.items:
            queue = heap.pop()
            if self.overused(queue) or queue not in jobs or not jobs[queue].items:
                continue
            claim = self.pending(jobs[queue].pop())[0]
            for node in self.nodes:
                if not self.has_place(node):
                    continue
                found = self._running_on(node, lambda job, _, queue=queue: job["queue"] != queue)
                if found and self._take(claim, self._reclaimable(found), node):
                    heap.push(queue)
                    break

    def _preempt(self, claim: dict[str, Any], accept: Callable[[dict[str, Any], dict[str, Any]], bool]) -> bool:
        for node in [node for node in self.nodes if self.has_place(node)]:
            found = self._running_on(node, accept)
            victims = self._preemptable(claim, found) if found else []
            if self._take(claim, sorted(victims, key=self.task_key, reverse=True), node):
                return True
        return False

    def preempt(self) -> None:
        queues = list(dict.fromkeys(job["queue"] for job in self.jobs.values()))
        wanting = [job for job in self.jobs.values() if self.pending(job)]
        left = {job["name"]: self.pending(job) for job in wanting}
        for queue in queues:
            heap = Heap(self.job_less, [job for job in wanting if job["queue"] == queue])
            while heap.items:
                job = heap.pop()
                saved = [(task, dict(task)) for task in self.tasks()]
                assigned = False
                while left[job["name"]]:
                    claim = left[job["name"]].pop(0)
                    assigned |= self._preempt(
                        claim, lambda other, _, job=job: other["queue"] == job["queue"] and other is not job
                    )
                    if self.pipelined(job):
                        break
                if not self.pipelined(job):
                    for task, old in saved:
                        task.clear()
                        task.update(old)
                elif assigned:
                    heap.push(job)
            for job in wanting:
                while left[job["name"]]:
                    claim = left[job["name"]].pop(0)
                    if not self._preempt(claim, lambda other, _, job=job: other is job):
                        break

    def results(self) -> dict[str, str]:
        """Return by pod what came of it, with its node."""
        found = {}
        for task in self.tasks():
            if task["name"] in self.bound:
                found[task["name"]] = f"bound {task['node']}"
            elif task.get("was_evicted"):
                found[task["name"]] = "evicted"
            elif task["state"] in {"Pipelined", "Allocated"}:
                found[task["name"]] = f"{task['state']} {task['node']}"
        return found


class Heap:
    """Go's container/heap: the order among items whose keys change while they wait depends on how it moves them."""

    def __init__(self, less: Callable[[Any, Any], bool], items: list[Any]) -> None:
        self.less = less
        self.items: list[Any] = []
        for item in items:
            self.push(item)

    def push(self, item: Any) -> None:
        self.items.append(item)
        child = len(self.items) - 1
        while child and self.less(self.items[child], self.items[(child - 1) // 2]):
            parent = (child - 1) // 2
            self.items[child], self.items[parent] = self.items[parent], self.items[child]
            child = parent

    def pop(self) -> Any:
        self.items[0], self.items[-1] = self.items[-1], self.items[0]
        first = self.items.pop()
        parent = 0
        while True:
            children = [at for at in (2 * parent + 1, 2 * parent + 2) if at < len(self.items)]
            if not children:
                return first
            best = functools.reduce(
                lambda one, two: two if self.less(self.items[two], self.items[one]) else one, children
            )
            if not self.less(self.items[best], self.items[parent]):
                return first
            self.items[parent], self.items[best] = self.items[best], self.items[parent]
            parent = best
