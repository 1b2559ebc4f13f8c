"""The classic dialect for the compiler: normalises a document, so that `ClassicBuilder` can build it.

Keys that both dialects have are converted in place. `case`, `vars` and `sink` stay in their step, and their retries
become policies.
"""

from __future__ import annotations

from noetl.classic import outline
from noetl.classic.build import SINK, ClassicBuilder
from noetl.classic.detect import tasks_of
from noetl.classic.language import TASK_KEYS
from noetl.classic.names import CallNames, rename_everywhere, renamed_text
from noetl.classic.nodes import as_map, free_label, insert_item, list_at, map_at
from noetl.classic.policies import (
    labelled,
    on_error_of,
    retry_rule,
    set_policy,
    set_step_policies,
    sink_task,
    step_retry,
)
from noetl.classic.steps import (
    Leftovers,
    arcs_of,
    convert_loop,
    declare_credentials,
    drop_entry_keys,
    give_args,
    router_at,
)
from noetl.dsl.dialect import Dialect
from noetl.dsl.outline import labelled_items
from noetl.dsl.shape import KindSource
from noetl.dsl.tree import Map, Seq, unshare


def prepare(root: Map, kinds: KindSource) -> None:
    unshare(root)
    leftovers = Leftovers(kinds)  # all of them can be built
    declare_credentials(outline.ClassicDocument(root), kinds, leftovers)
    names, step_names = CallNames(root, kinds), {step["step"] for step in root["workflow"]}
    for step in root["workflow"]:
        convert_loop(step)
        give_args(step)
        sinks = [sink for task in tasks_of(step.get("tool")) for sink in names.sinks_of(task)]
        _set_chain_policies(step, names)
        set_step_policies(step, names, with_vars=False)
        if "sink" in step:
            step["sink"] = _sink_in_place(step["sink"], names, None)
        if isinstance(step.get("next"), str | list):
            at = step["next"] if isinstance(step["next"], Seq) else step
            step["next"] = router_at(at, arcs_of(step, names.after_step(step), leftovers))
        if sinks:
            _append_sinks(step, sinks, names, step_names)
    drop_entry_keys(root)
    rename_everywhere(root, kinds)


def _append_sinks(step: Map, sinks: list[Map], names: CallNames, step_names: set[str]) -> None:
    """Sinks of workbook tasks follow the call. They are marked, since they do not change its result."""
    items = list(labelled_items(step["tool"]))
    label, call, *_ = items[-1]
    labels = {item.label for item in items}
    if isinstance(step["tool"], Map):
        step["tool"] = list_at(call, [labelled(call, label, call)])
    for sink in sinks:
        task = sink_task(sink, names, names.in_pipeline(label, call), None)
        task[SINK] = True
        step["tool"].append(labelled(sink, free_label("sink", labels, step_names), task))


def _set_chain_policies(step: Map, names: CallNames) -> None:
    """Set the retries of calls in chains: the innermost `retry` wins; that of a whole chain becomes `again`."""
    ignore = "continue" if on_error_of(step) == "ignore" else None
    for branch in step.get("case", []):
        chain = branch.get("then", branch.get("else"))
        retry = as_map(chain).get("retry", branch.get("retry"))
        default = step_retry(step) if retry is None else retry
        if retry is not None and retry.get("scope") == "chain":
            default = map_at(step) if on_error_of(step) == "retry" else None
            branch["again"] = retry_rule(branch, retry, names.in_rule(branch), ignore=False)
        for name, body, container in list(outline.chain_items(branch)):
            if name == "sink":
                container[name] = _sink_in_place(body, names, default)
            if name in ("next", "set", "sink"):
                continue
            call = body["tool"]
            if "retry" in body:
                call["retry"] = body.pop("retry")
            if "poll" in body:
                body["poll"]["until"] = renamed_text(body["poll"]["until"], names.in_rule(call))
            for sink in reversed(names.sinks_of(call)):
                task = sink_task(sink, names, names.in_pipeline(name, call), default)
                item = labelled(sink, "sink", map_at(sink, tool=task))
                place = next(i for i, other in enumerate(chain) if other is container)
                insert_item(chain, place + 1, item)
            set_policy(call, names, default, ignore=ignore)


def _sink_in_place(sink: Map, names: CallNames, default: Map | None) -> Map:
    return map_at(sink, tool=sink_task(sink, names, {"result": "result"}, default))


CLASSIC = Dialect(
    name="classic",
    document=outline.ClassicDocument,
    task_keys=TASK_KEYS,
    sites=outline.ClassicSiteFinder,
    visibility=outline.VISIBILITY,
    check=outline.check,
    prepare=prepare,
    builder=ClassicBuilder,
)
