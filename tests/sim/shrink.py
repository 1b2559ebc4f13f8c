"""The smallest set of faults with which a seed still fails, and the command that replays it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.sim.faults import KINDS
from tests.sim.story import Story, simulate


class Shrunk(NamedTuple):
    story: Story
    without: tuple[str, ...]
    limits: dict[str, int]
    blocks: tuple[int, ...] = ()

    @property
    def command(self) -> str:
        options = [f"--without '{kind}'" for kind in self.without]
        options += [f"--at-most '{kind}={count}'" for kind, count in self.limits.items()]
        options += [f"--block {number}" for number in self.blocks]
        return " ".join([f"noetl sim --seed {self.story.seed}", *options])

    def __str__(self) -> str:
        problems = "\n".join(f"  {problem}" for problem in self.story.problems[:5])
        return f"seed {self.story.seed}:\n{problems}\nreplay it with: {self.command}\n{self.story.playbook}"


Simulate = Callable[[int, tuple[str, ...], dict[str, int], tuple[int, ...]], Story]


def shrink(seed: int, run: Simulate = simulate) -> Shrunk:
    """Leave out blocks of the playbook, then kinds of faults, then the last occurrences of each other kind, as long as
    the seed fails."""
    smallest = Shrunk(run(seed, (), {}, ()), (), {}, ())
    all_blocks = tuple(range(smallest.story.blocks))
    for number in all_blocks if len(all_blocks) > 1 else ():
        blocks = tuple(other for other in smallest.blocks or all_blocks if other != number)
        if blocks and (story := run(seed, (), {}, blocks)).problems:
            smallest = Shrunk(story, (), {}, blocks)
    blocks = smallest.blocks
    for kind in KINDS:
        story = run(seed, (*smallest.without, kind), {}, blocks)
        if story.problems:
            smallest = Shrunk(story, (*smallest.without, kind), {}, blocks)
    for kind, count in sorted(smallest.story.faults.items()):
        enough, most = 0, count  # with `most` it fails, with fewer than `enough` it does not
        while enough < most:
            middle = (enough + most) // 2
            limits = smallest.limits | {kind: middle}
            story = run(seed, smallest.without, limits, blocks)
            if story.problems:
                smallest, most = Shrunk(story, smallest.without, limits, blocks), middle
            else:
                enough = middle + 1
    return smallest
