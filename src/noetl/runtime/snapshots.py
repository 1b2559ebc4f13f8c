"""Which snapshots of an execution are kept."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

MAX_SNAPSHOTS = 128


def surplus(seqs: Sequence[int], most: int = MAX_SNAPSHOTS) -> list[int]:
    """The snapshots to remove if there are more than `most`: every second one where they are close together. The latest
    remains, and between two that remain there is at most 1/64 of the log (2 / `most`)."""
    superfluous: list[int] = []
    if len(seqs) <= most:
        return superfluous
    widest, last = seqs[-1] * 2 // most, 0
    for seq, following in pairwise(seqs):
        if following - last <= widest:
            superfluous.append(seq)
        else:
            last = seq
    return superfluous
