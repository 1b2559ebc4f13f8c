"""A page for each tool kind, with the example from tests/kinds."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

from noetl.model.inputs import rows
from noetl.model.kind import Kind
from noetl.tools.registry import BUILTIN, builtin
from tools.docs.markdown import code, codes, fence, page, sentence, table

EXAMPLES = Path(__file__).parents[2] / "tests" / "kinds"
BEHAVIOUR: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
RESULT = {
    "data": "its body, `data`",
    "rows": "its rows, `rows`",
}


def kinds() -> list[Kind]:
    """The built-in kinds by name."""
    return [kind for name in sorted(BUILTIN) if (kind := builtin(name)) is not None]


def pages() -> Iterator[tuple[str, str]]:
    yield "reference/tools/index.md", _index()
    for kind in kinds():
        yield f"reference/tools/{kind.name}.md", _kind(kind)


def _index() -> str:
    listed = [
        (
            f"[{kind.name}]({kind.name}.md)",
            sentence(kind.summary),
            code(kind.extra) if kind.extra else "",
        )
        for kind in kinds()
    ]
    return page(
        "Tool kinds",
        "A task names a tool kind and its inputs. Each call has exactly one outcome, and the policy of the task "
        "decides what follows.",
        table(["Kind", "What it does", "Extra"], listed),
        "A kind with an extra needs a driver that is not installed by default: "
        "`pip install 'noetl-engine[EXTRA]'`. Checking a playbook never needs it.",
        "Plug-ins add kinds in the entry point group `noetl.tools`. `noetl tools` lists all kinds of an installation, "
        "`noetl tools schema KIND` the inputs of one.",
        "[The language](../language.md#a-task) lists the keys that every task has, such as `args` and `spec`.",
    )


def _kind(kind: Kind) -> str:
    return page(
        kind.name,
        sentence(kind.summary),
        "\n".join(f"- {fact}" for fact in _facts(kind)),
        *(["## Behaviour", BEHAVIOUR[kind.name]] if kind.name in BEHAVIOUR else []),
        "## Inputs",
        table(["Input", "Type", "Required", "Default", "Meaning"], map(_row, rows(kind))),
        "An input may be a template, unless this page says that it is never rendered. Set defaults for all tasks of "
        f"this kind in `spec` of the executor, a step or a loop: `spec: {{{kind.name}: {{...}}}}`.",
        "## Example",
        fence((EXAMPLES / f"{kind.name}.yaml").read_text("utf-8"), "yaml"),
        "See also [all kinds](index.md) and [what every task has](../language.md#a-task).",
    )


def _row(row: tuple[str, str, bool, str, str]) -> list[str]:
    name, words, required, default, description = row
    return [code(name), words, "yes" if required else "", code(default) if default else "", sentence(description)]


def _facts(kind: Kind) -> Iterator[str]:
    if kind.extra:
        yield f"**Driver:** `pip install 'noetl-engine[{kind.extra}]'`"
    else:
        yield "**Driver:** none needed"
    limit = f"{_duration(kind.timeout)}; change it with `spec.timeout`" if kind.timeout else "none"
    yield f"**Timeout:** {limit}"
    if kind.outcome:
        yield f"**In rules:** `outcome.{kind.outcome}` has the fields of this kind"
    if kind.credentials:
        yield f"**Credentials:** `auth` names a keychain entry of kind {codes(kind.credentials)} or `secret_manager`"
    for group in kind.one_of:
        yield f"**Needs:** exactly one of {codes(group)}"
    if kind.sql:
        yield (f"**SQL:** in {codes(kind.sql)} every template is one bound value; see [SQL](../templates.md#in-sql)")
    if kind.verbatim:
        yield f"**Never rendered:** {codes(kind.verbatim)}"
    if kind.result in RESULT:
        yield f"**In the classic dialect:** `result` is {RESULT[kind.result]}"


def _duration(seconds: float) -> str:
    for size, unit in ((3600, "hour"), (60, "minute")):
        if seconds % size == 0:
            return f"{seconds / size:g} {unit}{'s' * (seconds != size)}"
    return f"{seconds:g} seconds"
