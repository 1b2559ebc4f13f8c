"""The page of the language, from the tables in noetl/dsl/document.py and noetl/classic/language.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from noetl.classic import language as classic
from noetl.dsl import document as doc
from noetl.dsl import part_shapes, scalar_shapes, shape
from noetl.dsl.shape import Fields, Shape
from tools.docs.markdown import capital, code, codes, page, sentence, slug, table
from tools.docs.problems import link

INTRO = f"""A playbook is one YAML document. This page lists every key: its meaning, its type, and whether it is
required. A key that is not listed here is an error ({link("NTL101")}); nothing is
ignored.

There are two dialects. The **canonical** one is current. The **classic** one is older; a playbook that
uses its constructs, and none that only the canonical dialect has, is read as classic. The two cannot be mixed in one
playbook ({link("NTL113")}). `noetl migrate` rewrites a classic playbook.

A value in parentheses after the meaning is the default."""

TYPES = [
    ("text", "Plain text. It is never rendered as a template."),
    ("name", "Letters, digits and `_`, not starting with a digit."),
    ("label", "A name that may also have `-` and `.` in it."),
    ("duration", "A number of seconds, or a text such as `30s`, `5m`, `2h` or `1h30m`."),
    ("condition", "`true`, `false`, or one `{{ expression }}`. See [templates](templates.md)."),
    ("any value", "Data of any kind. Text in it is a template."),
]

SECTIONS: list[tuple[str, str, Shape]] = [
    ("The playbook", "The keys at the root.", classic.ROOT),
    ("metadata", "Identifies the playbook. Other keys are allowed and kept.", doc.METADATA),
    (
        "A keychain entry",
        "`keychain` is a list of credentials. The playbook names them; their values are stored elsewhere.",
        doc.CREDENTIAL,
    ),
    ("executor", "Where and how the playbook runs.", doc.EXECUTOR),
    ("executor.spec", "Defaults and limits for the whole run.", doc.EXECUTOR_SPEC),
    (
        "A step",
        "`workflow` is a list of steps. A token enters a step, its pipeline runs, and arcs lead on.",
        classic.STEP,
    ),
    ("step.spec", "", classic.STEP_SPEC),
    (
        "An admission rule",
        "Decides whether a token may enter the step: `when` and `then`, or as the last one `else`. The first rule that "
        "matches wins, unless `mode` is `inclusive`.",
        doc.ADMIT_RULE,
    ),
    ("A loop", "Runs the step's pipeline once for each item. `in` and `iterator` are required.", classic.LOOP),
    ("loop.spec", "", classic.LOOP_SPEC),
    (
        "A task",
        "`tool` is a pipeline: a list of tasks that run in order. Write each as `- label: {kind: ...}`. The forms "
        "`- {name: label, kind: ...}`, `- {kind: ...}` and a single map are accepted, too. In addition to these keys "
        "a task has the inputs of [its kind](tools/index.md).",
        doc.TASK,
    ),
    ("task.spec", "", doc.TASK_SPEC),
    (
        "A rule of a task",
        "After each outcome the rules of `spec.policy` are tried in order, and the first that matches "
        "decides. A rule has `when` and `then`, or as the last one `else`. Without a match the pipeline continues. A "
        "task without a policy continues after success and fails after an error. A rule that cannot be evaluated fails "
        "the run with kind `template`; the log still has the outcome.",
        doc.TASK_RULE,
    ),
    ("then", "What a matching rule does.", doc.TASK_THEN),
    ("next", "The arcs of a step, and how they are chosen.", doc.ROUTER),
    ("An arc", "", doc.ARC),
    ("results", "How large results are stored.", doc.RESULTS),
    ("A result store", "One of the kinds as a word, or a map with these keys.", doc.STORE),
    ("A sandbox", "One of the kinds as a word, or a map with these keys.", doc.SANDBOX),
    (
        "workbook",
        "Tasks that several steps call by name with `kind: workbook`: a map of names to tasks, or the same map under "
        "`tasks`. In the older form it is a list whose entries have `name` and `tool`.",
        classic.WORKBOOK,
    ),
]
CLASSIC_SECTIONS: list[tuple[str, str, Shape]] = [
    ("retry", "", classic.RETRY),
    (
        "A sink",
        "In a loop it runs once per item, in the scope of the item, if it reads the item or `loop_index`; otherwise "
        "once at the end, with the list of results.",
        classic.SINK,
    ),
    (
        "A branch",
        "`case` is a list of branches. A branch has `when` and `then`, or `else`. After a failed call a branch fires "
        "only if its condition names `call.error`, or reads a status or an error; `step.exit` alone does not.",
        classic.CASE.item,
    ),
    ("A chain", "What a branch does: a list of tasks, or a map with these keys.", classic.CHAIN),
    ("next of a chain", "A step's name, a list of steps, or a map with these keys.", classic.GOTO),
    (
        "A task of a chain",
        "An item of `then` or `else`: `- name: {tool: ...}`, `next`, `sink` or `set`.",
        classic.CHAIN_TASK,
    ),
    ("poll", "", classic.POLL),
]
SPECIAL: dict[Shape, str] = {
    scalar_shapes.DATA: "any value",
    scalar_shapes.TEXT: "text",
    scalar_shapes.DESCRIPTION: "text",
    scalar_shapes.NAME: "name",
    scalar_shapes.LABEL: "label",
    scalar_shapes.BOOLEAN: "`true` or `false`",
    scalar_shapes.NUMBER: "number of at least 0",
    scalar_shapes.DURATION: "duration",
    scalar_shapes.TIME_LIMIT: "duration",
    scalar_shapes.DELAY: "duration",
    scalar_shapes.GUARD: "condition",
    doc.COLLECTION: "list, or a template that gives one",
    classic.COMPUTED: "label, or a template that gives one",
    classic.CHAIN_TARGETS: "list of labels, or of maps",
    classic.WORKBOOK: "map of [tasks](#a-task), or list of [entries](#workbook)",
    part_shapes.RUNTIME_VERSION: "version with major 2",
    doc.LANGUAGE: code("noetl.io/v2"),
    doc.PLAYBOOK: code("Playbook"),
}
PLURALS = {"keychain entry": "keychain entries", "branch": "branches", "rule of a task": "rules"}
WORDS: dict[type[Shape], str] = {
    part_shapes.TaskShape: "[task](#a-task)",
    part_shapes.PipelineShape: "list of [tasks](#a-task), or one",
    classic.ChainItemShape: "[tasks](#a-task-of-a-chain)",
}

Row = tuple[str, shape.Field]


def pages() -> Iterator[tuple[str, str]]:
    parts = [
        INTRO,
        "## Types",
        table(["Type", "Meaning"], TYPES),
        "## Keys of older languages",
        "These are errors everywhere; `do` is allowed in the rules of a task.",
        _refused(doc.OLD | doc.NO_DIRECTIVE),
    ]
    for title, about, result in SECTIONS:
        parts += _section(f"## {title}", about, result)
    parts += ["## The classic dialect", "Keys that only classic playbooks have."]
    for title, about, result in CLASSIC_SECTIONS:
        parts += _section(f"### {title}", about, result)
    yield "reference/language.md", page("The language", *parts)


def _section(title: str, about: str, found: Shape) -> Iterator[str]:
    yield title
    yield about
    tables = _tables(found)
    rows = [row for fields in tables for row in _rows("", fields)]
    if len(tables) > 1:  # one of two forms: no key of either is required by itself
        rows = [(key, field if "." in key else field._replace(required=False)) for key, field in rows]
    current = [row for row in rows if row[1].rewrite is None]
    older = [row for row in rows if row[1].rewrite is not None]
    yield table(["Key", "Type", "Required", "Meaning"], map(_row, _once(current)))
    if any(fields.kinds for fields in tables):
        yield (
            "The name of a [tool kind](tools/index.md) is a key too. It holds default inputs for all tasks of that "
            "kind in this scope, and may also hold their `timeout` and `retry`: `http: {timeout: 30s}`."
        )
    if older:
        yield "In the classic dialect also:"
        yield table(["Key", "Type", "Meaning", "In the canonical dialect"], map(_classic_row, older))
    everywhere = [*doc.OLD.values(), *doc.NO_DIRECTIVE.values()]
    refused = {key: old for key, old in tables[0].retired.items() if old not in everywhere}
    if refused:
        yield "Errors here:"
        yield _refused(refused)


def _refused(keys: Mapping[str, shape.Retired]) -> str:
    rows = [(code(key), sentence(old.hint), link(old.check.code)) for key, old in sorted(keys.items())]
    return table(["Key", "What to do", "Problem"], rows)


def _once(rows: list[Row]) -> Iterator[Row]:
    seen = set()
    for key, field in rows:
        if key not in seen:
            seen.add(key)
            yield key, field


def _tables(found: Shape) -> list[Fields]:
    """The maps a section is about."""
    match found:
        case part_shapes.TaskShape():
            return [_TASK]
        case Fields():
            return [found]
        case shape.OneOf(forms=forms):
            parts = (form.shape.item if isinstance(form.shape, shape.ListOf) else form.shape for form in forms)
            return [part for part in parts if isinstance(part, Fields)]
        case _:
            raise TypeError(f"the page of the language cannot show {found!r}")


_TASK = Fields(
    "a task",
    shape.Field("kind", scalar_shapes.TEXT, "the tool to call: one of the [tool kinds](tools/index.md)", required=True),
    shape.Field("name", scalar_shapes.LABEL, "its label, in the form `- {name: label, kind: ...}`"),
    shape.Field("args", doc.ARGS, "values that its inputs and its code see as `args`; they overlay the token's"),
    shape.Field("spec", doc.TASK_SPEC, "knobs and the policy"),
    shape.Field(
        "retry", classic.RETRY, "how it is retried", rewrite="write a rule with `do: retry` in the task's policy"
    ),
    retired=doc.OLD,
)


def _rows(prefix: str, fields: Fields) -> Iterator[Row]:
    for key, field in fields.fields.items():
        yield f"{prefix}{key}", field
        for inner, below in _inside(field.shape):
            yield from _rows(f"{prefix}{key}{below}.", inner)


def _inside(found: Shape) -> Iterator[tuple[Fields, str]]:
    """Maps inside a value that have no section of their own, with what leads from the value to them."""
    if _linked(found) or found is classic.TARGETS:
        return
    match found:
        case Fields():
            yield found, ""
        case shape.ListOf(item=item):
            yield from ((fields, f"[]{below}") for fields, below in _inside(item))
        case shape.MapOf(value=value):
            yield from ((fields, f".NAME{below}") for fields, below in _inside(value))
        case shape.OneOf(forms=forms):
            for form in forms:
                if form.rewrite is None:
                    yield from _inside(form.shape)


def _linked(found: Shape, many: bool = False) -> str | None:
    """A link to the section of a shape, if it has one."""
    for title, _, shown in [*SECTIONS, *CLASSIC_SECTIONS]:
        if shown is found:
            name = title.lower().removeprefix("a ").removeprefix("an ")
            name = PLURALS.get(name, f"{name}s") if many else name
            return f"[{name}](#{slug(title)})"
    return None


def _words(found: Shape) -> str:
    """The type of a value as text."""
    if type(found) in WORDS:
        return WORDS[type(found)]
    if found in SPECIAL:
        return SPECIAL[found]
    if link := _linked(found):
        return link
    match found:
        case shape.Choice(choices=choices):
            return codes(choices, "or")
        case shape.Integer(least=least, most=most):
            return f"whole number, {least:,} to {most:,}" if most < 1 << 40 else f"whole number, at least {least:,}"
        case Fields():
            return "map"
        case shape.ListOf(item=item):
            return f"list of {_linked(item, many=True) or _words(item)}"
        case shape.MapOf(value=value):
            return "map" if value is scalar_shapes.DATA else f"map of {_words(value)}"
        case shape.OneOf():
            return _alternatives(found)
        case _:
            raise TypeError(f"the page of the language cannot describe {found!r}")


def _alternatives(found: shape.OneOf) -> str:
    current = [form for form in found.forms if form.rewrite is None and form.shape is not classic.TARGETS]
    words = list(dict.fromkeys(_words(form.shape) for form in current))
    return ", or ".join(words)


def _row(row: Row) -> tuple[str, str, str, str]:
    key, field = row
    return code(key), _words(field.shape), "yes" if field.required else "", sentence(field.doc)


def _classic_row(row: Row) -> tuple[str, str, str, str]:
    key, field = row
    return code(key), _words(field.shape), sentence(field.doc), sentence(capital(field.rewrite or ""))
