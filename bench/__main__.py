"""Runs every benchmark and prints one table."""

from __future__ import annotations

from bench import (
    engine,
    footprint,
    http,
    language,
    lists,
    live,
    outline,
    past,
    redaction,
    server,
    stalls,
    transfer,
    verify,
)
from bench.measure import print_figures

PARTS = (language, engine, outline, verify, past, lists, http, redaction, transfer, footprint, server, stalls, live)


def main() -> None:
    for part in PARTS:
        print_figures(part.figures())


if __name__ == "__main__":
    main()
