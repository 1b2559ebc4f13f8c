"""Task policies: rules that can be followed, and pipelines that can end."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.dsl.document_parts import Document, TaskSite, labelled_items, rules
from noetl.dsl.graph import DirectedGraph, arrows
from noetl.dsl.problem import Check, Problems, hint_names
from noetl.dsl.tree import Map, Seq, key_span, span_in, span_of
from noetl.errors import TemplateSyntax
from noetl.expression import always_holds, may_take_error, some_error_passes

UNKNOWN_LABEL = Check("NTL304", "error", "a jump leads to a task that does not exist", stored_ok=False)
STRAY_OPTION = Check("NTL305", "error", "an option does not belong to the directive", stored_ok=False)
JUMP_WITHOUT_TO = Check("NTL306", "error", "a jump has no target", stored_ok=False)
ELSE_PLACE = Check("NTL307", "error", "`else` is not the last rule, or occurs twice", stored_ok=False)
NO_ELSE = Check("NTL308", "warning", "rules without `else`")
SKIP_RULE = Check("NTL309", "error", "a skip rule reads the outcome, or is `else`", stored_ok=False)
BAD_REDUCER = Check("NTL310", "error", "a patch uses an unknown reducer", stored_ok=False)
PARALLEL_CTX = Check("NTL311", "warning", "`set_ctx` in a parallel loop")
NO_WAY_OUT = Check("NTL312", "error", "a pipeline cannot end", stored_ok=False)
ENDS_BY_FAILURE = Check("NTL313", "warning", "a pipeline ends only by failing")
ERRORS_PASS = Check("NTL315", "warning", "`else`, or a rule that always matches, lets errors pass")
NO_LEDGER = Check("NTL316", "error", "`exactly_once` without a file for its ledger", stored_ok=True)
IDLE_OPTION = Check("NTL314", "error", "an option does not apply to this kind", stored_ok=False)

FAIL_RULE = "`- {when: \"{{ outcome.status == 'error' }}\", then: {do: fail}}`"
ELSE_HINT = f"add {FAIL_RULE} and then `- else: {{then: {{do: continue}}}}`"
REDUCERS = ("$add", "$append", "$max", "$min", "$merge")
RETRY_OPTIONS = dict.fromkeys(["attempts", "backoff", "max_delay", "jitter"], ("retry",))
OPTIONS = {**RETRY_OPTIONS, "delay": ("retry", "jump"), "to": ("jump",)}
KIND_OPTIONS = {"mode": ("iterator",), "max_in_flight": ("iterator",), "exactly_once": ("postgres", "duckdb")}


def check(document: Document, problems: Problems) -> None:
    for step in document.steps:
        parallel = document.is_parallel(step)
        for site in document.tasks(step):
            _check_task(site, parallel, problems)
            _check_ledger(site, [document.executor_spec, *document.layers(step)], problems)
        for tool in document.pipelines(step):
            _check_end(tool, problems)
    for _, site in document.workbook:
        _check_task(site, False, problems)
        every_layer = [layer for step in document.steps for layer in document.layers(step)]
        _check_ledger(site, [document.executor_spec, *every_layer], problems)


def _check_task(site: TaskSite, parallel: bool, problems: Problems) -> None:
    spec, kind = site.tree.get("spec", {}), site.tree.get("kind")
    for key, owners in KIND_OPTIONS.items():
        if key in spec and kind not in (*owners, "workbook"):
            message = f"{key!r} does not apply to {kind}"
            problems.add(IDLE_OPTION, key_span(spec, key), message, f"it is an option of {' and '.join(owners)}")
    if isinstance(spec.get("timeout"), dict) and kind not in ("http", "workbook"):
        hint = "give one duration, such as 30s"
        problems.add(IDLE_OPTION, span_in(spec, "timeout"), f"{kind} has one time limit, not connect and read", hint)
    parallel = parallel or any(outer.tree.get("spec", {}).get("mode") == "parallel" for outer in site.outer)
    policy = list(rules(site.tree))
    for i, (rule, then, otherwise) in enumerate(policy):
        if otherwise and i < len(policy) - 1:
            problems.add(ELSE_PLACE, span_of(rule), "`else` is not the last rule", "move it to the end")
        if otherwise and then.get("do") == "skip":  # the template checks see whether its guard reads the outcome
            problems.add(SKIP_RULE, span_of(rule), "`do: skip` is not allowed in `else`", "give it a `when`")
        _check_directive(site, then, problems)
        _check_patches(then, parallel and site.place == "pipeline", problems)
    written = spec.get("policy", {}).get("rules", [])
    if not policy or getattr(written, "lost", None):
        return
    last = next((i for i, part in enumerate(policy) if _takes_all(*part)), None)
    errors = _passing(policy[:last]) if kind != "noop" else None  # which does not fail
    if last is not None:
        rule, then, otherwise = policy[last]
        misplaced = otherwise and last < len(policy) - 1  # which is reported above
        if errors and not misplaced and then.get("do") in ("continue", "break", "jump"):
            name = "`else`" if otherwise else "the rule that always matches"
            message = f"{name} of {site.label!r}, `do: {then['do']}`, also takes {errors}"
            problems.add(ERRORS_PASS, span_of(rule), message, f"put {FAIL_RULE} before it")
    else:
        message = f"the rules of {site.label!r} have no `else`"
        message += f": the pipeline continues after {errors}" if errors else ""
        problems.add(NO_ELSE, span_of(written), message, ELSE_HINT)


def _check_ledger(site: TaskSite, layers: list[Map], problems: Problems) -> None:
    """DuckDB keeps the ledger of `exactly_once` in the file of its database."""
    spec = site.tree.get("spec", {})
    if site.tree.get("kind") != "duckdb" or spec.get("exactly_once") is not True:
        return
    defaults = [layer["duckdb"] for layer in layers if isinstance(layer.get("duckdb"), dict)]
    hint = "add `database: FILE`, or remove `exactly_once`"
    if all(task.get("database") in (None, ":memory:") for task in (site.tree, *defaults)):
        message = "`exactly_once` needs a `database` file for its ledger, but the database is in memory"
        problems.add(NO_LEDGER, key_span(spec, "exactly_once"), message, hint)
    elif site.tree.get("read_only") is True:
        message = "`exactly_once` writes its ledger into the database, but the database is `read_only`"
        problems.add(NO_LEDGER, key_span(spec, "exactly_once"), message, "remove `read_only` or `exactly_once`")


def _takes_all(rule: Map, then: Map, otherwise: bool) -> bool:
    """Whether a rule takes every outcome that reaches it."""
    guard = rule.get("when")
    if otherwise or then.get("do") == "skip":
        return otherwise
    try:
        return guard is True or (isinstance(guard, str) and always_holds(guard))
    except (TemplateSyntax, RecursionError):  # reported by the template checks
        return False


def _passing(policy: list[tuple[Map, Map, bool]]) -> str | None:
    """The errors that no guard of a policy takes, in words; None if there are none, or if that cannot be decided."""
    guards = [rule["when"] for rule, then, _ in policy if then.get("do") != "skip"]
    texts = [guard for guard in guards if isinstance(guard, str)]
    try:
        if not some_error_passes(texts):
            return None
        handled = [guard.strip().strip("{}").strip() for guard in texts if may_take_error(guard)]
    except (TemplateSyntax, RecursionError):  # reported by the template checks
        return None
    return "every error" + (
        " but those where " + " or ".join(f"`{guard[:80]}`" for guard in handled[:3]) if handled else ""
    )


def _check_directive(site: TaskSite, then: Map, problems: Problems) -> None:
    do = then.get("do")
    for option, owners in OPTIONS.items():
        if option in then and do is not None and do not in owners:
            message = f"{option!r} has no effect with `do: {do}`"
            problems.add(STRAY_OPTION, key_span(then, option), message, f"it is an option of {' and '.join(owners)}")
    if do == "jump" and "to" not in then:
        problems.add(
            JUMP_WITHOUT_TO, span_in(then, "do"), "the jump has no 'to'", f"labels here: {hint_names(site.labels)}"
        )
    elif do == "jump" and then["to"] not in site.labels:
        hint = problems.did_you_mean(then["to"], site.labels) or f"labels here: {hint_names(site.labels)}"
        problems.add(UNKNOWN_LABEL, span_in(then, "to"), f"unknown task {then['to']!r}", hint)


def _check_patches(then: Map, parallel: bool, problems: Problems) -> None:
    for patch in ("set_ctx", "set_iter"):
        for key, value in then.get(patch, {}).items():
            if not isinstance(value, dict) or not any(name.startswith("$") for name in value):
                if patch == "set_ctx" and parallel:
                    message = f"parallel items write the ctx key {key!r}"
                    hint = f"use `set_iter`, or a reducer: `{key}: {{$append: ...}}`"
                    problems.add(PARALLEL_CTX, key_span(then[patch], key), message, hint)
            elif len(value) != 1 or next(iter(value)) not in REDUCERS:
                message = f"{patch}.{key}: {', '.join(value)[:60]!r} is not a reducer"
                hint = problems.did_you_mean(next(iter(value)), REDUCERS) or f"reducers: {', '.join(REDUCERS)}"
                problems.add(BAD_REDUCER, span_in(then[patch], key), message, hint)


END, FAIL = "(end)", "(fail)"


def _check_end(tool: Map | Seq, problems: Problems) -> None:
    """Follow every directive: a task from which neither the end nor a failure can be reached never ends."""
    items = list(labelled_items(tool))
    labels = [item.label for item in items]
    if not labels or getattr(tool, "lost", None):
        return  # a task that was refused may be the one that ends it
    if not any(then.get("do") == "jump" for item in items for _, then, _ in rules(item.task)):
        return  # it goes forward only
    ways = {label: set(_ways(task, labels, i)) for i, (label, task, *_) in enumerate(items)}
    graph = DirectedGraph({**ways, END: (), FAIL: ()})
    reach = graph.reach()
    stuck = [name for name in graph.among(reach[labels[0]]) if name in ways and not reach[name] & graph.bit[END]]
    if not stuck:
        return
    endless = [name for name in stuck if not reach[name] & graph.bit[FAIL]]
    cycle = _cycle((endless or stuck)[0], ways)
    where = next(item.span for item in reversed(items) if item.label == cycle[0])
    path = arrows(cycle)
    if endless:
        problems.add(NO_WAY_OUT, where, f"the pipeline cannot end: {path}", "add a rule with `do: break` or `do: fail`")
    elif cycle[0] == cycle[-1] and len(cycle) > 1:  # without a cycle, failing is what its author meant
        hint = "add a rule with `do: break` for when the work is done"
        problems.add(ENDS_BY_FAILURE, where, f"the pipeline ends only when a call fails: {path}", hint)


def _ways(task: Map, labels: list[str], place: int) -> Iterator[str]:
    after = labels[place + 1] if place + 1 < len(labels) else END
    policy = list(rules(task))
    if not policy and (task.get("kind") != "noop" or "result" in task):
        yield FAIL
    for rule, then, otherwise in policy:
        match then.get("do"):
            case "continue" | "skip":
                yield after
            case "fail" | "retry":  # when attempts run out
                yield FAIL
            case "jump":
                yield then.get("to", END)
            case _:
                yield END
        if otherwise or rule.get("when") is True:
            return
    yield after


def _cycle(start: str, ways: dict[str, set[str]]) -> list[str]:
    path = {start: None}
    label = start
    while following := sorted(to for to in ways[label] if to in ways):
        label = following[0]
        if label in path:
            return [*list(path)[list(path).index(label) :], label]
        path[label] = None
    return list(path)
