"""Questions about whole graphs, asked of sets that are the bits of one number.

A playbook may have ten thousand steps, and a check that walks from each of them would take minutes. With sets as
numbers, what every node can reach costs one `|` per arc.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

MAX_PATH_NAMES = 10


class Graph:
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
        """What leads to each node, as a set."""

    def among(self, bits: int) -> Iterator[str]:
        """The names in a set, in their order."""
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

        Tarjan's algorithm with a stack of its own: a chain of steps is deeper than Python's.
        """
        groups: list[list[str]] = []
        number: dict[str, int] = {}
        low: dict[str, int] = {}
        path: list[str] = []
        on_path: set[str] = set()
        for start in self.names:
            if start in number:
                continue
            work = [(start, iter(self.after[start]))]
            number[start] = low[start] = len(number)
            path.append(start)
            on_path.add(start)
            while work:
                name, rest = work[-1]
                to = next((to for to in rest if to not in number or to in on_path), None)
                if to is None:
                    work.pop()
                    if work:
                        low[work[-1][0]] = min(low[work[-1][0]], low[name])
                    if low[name] == number[name]:
                        groups.append([])
                        while name in on_path:
                            groups[-1].append(path.pop())
                            on_path.discard(groups[-1][-1])
                elif to in number:
                    low[name] = min(low[name], number[to])
                else:
                    number[to] = low[to] = len(number)
                    path.append(to)
                    on_path.add(to)
                    work.append((to, iter(self.after[to])))
        return groups

    def reach(self) -> dict[str, int]:
        """What each node leads to, itself included."""
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
        came: dict[str, str] = {}
        todo = [start]
        for name in todo:
            for to in self.after[name]:
                if to not in came and to != start:
                    came[to] = name
                    if self.bit[to] & through:
                        todo.append(to)
        return came


def way_back(came: Mapping[str, str], start: str, goal: str) -> list[str]:
    path = [goal]
    while path[-1] != start:
        path.append(came[path[-1]])
    return path[::-1]


def arrows(path: list[str]) -> str:
    if len(path) > MAX_PATH_NAMES:
        path = [*path[: MAX_PATH_NAMES // 2], "…", *path[-MAX_PATH_NAMES // 2 :]]
    return " → ".join(path)
