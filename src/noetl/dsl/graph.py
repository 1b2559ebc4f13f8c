"""Queries on whole graphs. A set of nodes is the bits of one number.

A playbook may have ten thousand steps, and a check that walks from each of them would take minutes. With sets as
numbers, what every node can reach costs one `|` per arc.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

MAX_PATH_NAMES = 10


class DirectedGraph:
    """Nodes by name, with the arcs between them; arcs to unknown names are left out."""

    def __init__(self, arcs: Mapping[str, Iterable[str]]) -> None:
        self.names = list(arcs)
        self.bit = {name: 1 << i for i, name in enumerate(self.names)}
        self.after = {name: [to for to in dict.fromkeys(out) if to in arcs] for name, out in arcs.items()}
        self.before: dict[str, list[str]] = {name: [] for name in self.names}
        for name, out in self.after.items():
            for to in out:
                self.before[to].append(name)
        self.sources = {name: self.union(before) for name, before in self.before.items()}

    def among(self, bits: int) -> Iterator[str]:
        while bits:
            lowest = bits & -bits
            yield self.names[lowest.bit_length() - 1]
            bits ^= lowest

    def union(self, names: Iterable[str]) -> int:
        bits = 0
        for name in names:
            bits |= self.bit[name]
        return bits

    def cycles(self) -> list[list[str]]:
        """The names in groups that lead to each other; a group comes after all that it leads to.

        Kosaraju's algorithm with a stack of its own: a chain of steps is deeper than Python's.
        """
        finished: list[str] = []
        visited: set[str] = set()
        for start in self.names:
            work = [] if start in visited else [(start, iter(self.after[start]))]
            visited.add(start)
            while work:
                to = next((to for to in work[-1][1] if to not in visited), None)
                if to is None:
                    finished.append(work.pop()[0])
                else:
                    visited.add(to)
                    work.append((to, iter(self.after[to])))
        groups: list[list[str]] = []
        for start in reversed(finished):
            if start not in visited:
                continue
            visited.discard(start)
            groups.append(group := [start])
            for name in group:
                sources = [source for source in self.before[name] if source in visited]
                visited.difference_update(sources)
                group += sources
        return groups[::-1]

    def reach(self) -> dict[str, int]:
        """The nodes that each node leads to, itself included."""
        reached: dict[str, int] = {}
        for group in self.cycles():
            bits = self.union(group)
            for name in group:
                for to in self.after[name]:
                    bits |= reached.get(to, 0)
            reached.update(dict.fromkeys(group, bits))
        return reached

    def ways(self, start: str, through: int) -> dict[str, str]:
        """For each node that `start` leads to by nodes of the set `through`, the one before it on a shortest path."""
        previous: dict[str, str] = {}
        todo = [start]
        for name in todo:
            for to in self.after[name]:
                if to not in previous and to != start:
                    previous[to] = name
                    if self.bit[to] & through:
                        todo.append(to)
        return previous


def way_back(previous: Mapping[str, str], start: str, goal: str) -> list[str]:
    path = [goal]
    while path[-1] != start:
        path.append(previous[path[-1]])
    return path[::-1]


def arrows(path: list[str]) -> str:
    if len(path) > MAX_PATH_NAMES:
        path = [*path[: MAX_PATH_NAMES // 2], "…", *path[-MAX_PATH_NAMES // 2 :]]
    return " → ".join(path)
