"""Hover: what the word at the cursor means, and where it is."""

from __future__ import annotations

from tests.table import for_each

from .cursor import HEAD, STEPS, ask, ask_step

MEANINGS = [
    ("    des█c: x\n", "purpose of the step", "desc"),
    ("    tool: {kind: ht█tp, url: http://x}\n", "HTTP", "http"),
    ("    tool: {kind: http, u█rl: x}\n", "url", "url"),
    ("    next: {arcs: [{step: sta█rt}]}\n", "gets the orders", "start"),
    ('    tool: {kind: noop, result: "{{ wor█kload.since }}"}\n', "inputs of the run", "workload"),
    ('    tool: {kind: noop, result: "{{ workload.since | up█per }}"}\n', "upper case", "upper"),
    ('    tool: {kind: noop, result: "{{ steps.start.sta█tus }}"}\n', "ok", "status"),
]


@for_each(("lines", "meaning", "word"), MEANINGS)
def test_a_word_has_its_meaning_and_its_range(lines: str, meaning: str, word: str) -> None:
    hover = ask_step(lines).hover
    assert hover is not None
    assert meaning in hover.text
    line = (HEAD + STEPS + "  - step: third\n" + lines.replace("█", "")).split("\n")[hover.start.line - 1]
    assert hover.start.line == hover.end.line
    assert line[hover.start.column - 1 : hover.end.column - 1] == word


def test_unknown_words_and_blanks_have_none() -> None:
    assert ask_step("    unkno█wn: 1\n").hover is None
    assert ask("█\n").hover is None
