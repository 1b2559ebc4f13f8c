"""The parts of a classic document and the places of its templates, and the checks that only they need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from noetl.classic.chain_items import chain_items, step_items, tool_items
from noetl.classic.points import known_names, observes, point_names, possible_events
from noetl.classic.unused import unknown_timers, unused_keys
from noetl.dsl.checks.names import DUPLICATE_LABEL, check_unique
from noetl.dsl.checks.scopes import BASE, PIPELINE, PLACES, TOKEN, LocalName, TemplatePlace
from noetl.dsl.checks.templates import NEVER_EQUAL, ExpectedEvents, Site, SiteFinder
from noetl.dsl.document_parts import ITERATOR_KEYS, Document, TargetSite, TaskSite, Unused, next_targets
from noetl.dsl.problem import Problems
from noetl.dsl.tree import Map, is_template, key_span, span_in, text_size
from noetl.errors import TemplateSyntax
from noetl.expression import Read, parse

RESULT = frozenset(["result", "response", "this"])
RETRY_NAMES = frozenset(["attempt", "max_attempts", "status_code", "success"])
CLASSIC_PLACES = {
    "case": TemplatePlace("in a case's condition", BASE | TOKEN | RESULT | {"event", "error", "outcome"}),
    "next": TemplatePlace("in `args` of `next`", BASE | TOKEN | RESULT | {"event"}),
    "chain": TemplatePlace("in a chain", PIPELINE | RESULT | {"event", "error", "keychain"}),
    "chain_skip": TemplatePlace("in a sink's condition", PIPELINE | RESULT | {"event", "error"}),
    "vars": TemplatePlace("in `vars`", BASE | TOKEN | RESULT | {"event", "iter"}),
    "retry": TemplatePlace("in a retry's condition", PIPELINE | RESULT | RETRY_NAMES | {"outcome", "error", "data"}),
}


def _with_classic_names(name: str, place: TemplatePlace) -> TemplatePlace:
    if name == "workload":
        return place
    bare = () if name in ("admit", "loop", "output") else ("loop_index",)
    return TemplatePlace(place.words, place.roots | {"vars"}, frozenset(bare))


def stores_items(step: Map) -> bool:
    """Whether the sink of a loop runs once per item: it reads the item or its index (R7)."""
    if "loop" not in step or "sink" not in step:
        return False
    names = {"iter", "loop_index", *(step["loop"].get(key) for key in ITERATOR_KEYS)}
    return any(read.path[0] in names for text in _texts(step["sink"]) for read in _reads(text))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(item)


def _reads(text: str) -> tuple[Read, ...]:
    try:
        return tuple(parse(text).reads) if is_template(text) else ()
    except TemplateSyntax:
        return ()  # reported by the template checks


class ClassicDocument(Document):
    step_actions = Document.step_actions | {"case"}
    declares_credentials = False  # an undeclared name is looked up in the credential store

    def find_tasks(self, step: Map) -> Iterator[TaskSite]:
        yield from super().find_tasks(step)
        for branch in step.get("case", []):
            items = tool_items(branch)
            labels = frozenset(item.name for item in items)
            for name, body, _ in items:
                yield TaskSite(step, name, body["tool"], labels, place="sink" if name == "sink" else "chain")
        if "sink" in step:
            yield TaskSite(step, "sink", step["sink"]["tool"], frozenset(["sink"]), place="sink")

    def find_targets(self, step: Map) -> Iterator[TargetSite]:
        yield from super().find_targets(step)
        for item in step_items(step):
            if item.name == "next":
                yield from next_targets(item.container)

    def arg_names(self) -> Iterator[str]:
        yield from super().arg_names()
        for item in (item for step in self.steps for item in step_items(step) if item.is_call):
            yield from item.body.get("args", ())

    def step_args(self, step: Map) -> Iterable[str]:
        args: Map = step.get("args", Map())
        return args

    def variables(self) -> Iterator[str]:
        for step in self.steps:
            yield from step.get("vars", ())
            for item in step_items(step):
                if item.name == "set":
                    yield from item.body

    def repeated_size(self, step: Map, tasks: int) -> int:
        shared = sum(text_size(step.get(key)) for key in ("args", "retry"))
        return tasks * shared + len(step.get("case", [])) * text_size(step.get("next"))

    def listens(self, step: Map) -> bool:
        return "case" in step and observes(step)

    def unused(self) -> Iterator[Unused]:
        for step in self.steps:
            yield from unused_keys(step)

    def check(self, problems: Problems) -> None:
        for branch, timer in unknown_timers(self.steps):
            message = f"event.data.timer_id is never {timer!r} here: no step has such a timer"
            problems.add(NEVER_EQUAL, span_in(branch, "when"), message, f"add `spec: {{timers: {{{timer}: 1h}}}}`")
        for step in self.steps:
            for branch in step.get("case", []):
                labels = ((item.name, key_span(item.container, item.name)) for item in tool_items(branch))
                check_unique(labels, DUPLICATE_LABEL, "task", problems)


class ClassicSiteFinder(SiteFinder):
    places = {name: _with_classic_names(name, place) for name, place in (PLACES | CLASSIC_PLACES).items()}
    root_advice = dict.fromkeys(RETRY_NAMES, ("it exists in `retry_when` and `stop_when`", None))

    def events(self, site: Site) -> ExpectedEvents | None:
        if site.place != "case" or site.step is None:
            return super().events(site)
        possible = possible_events(site.step)
        hint = "a branch sees call.done, call.error and step.exit; with `eval_mode: on_event` it sees other events too"
        if "step.exit" not in possible:
            hint = "see docs/reference/events.md"
        return ExpectedEvents(possible, point_names(site.step, site.value), known_names(site.step), hint)

    def step(self, step: Map) -> Iterator[Site]:
        yield from super().step(step)
        more = {"step": step, "local": self.step_names(step)}
        yield from self.data(step, "args", "input", **more)
        yield from self.data(step, "vars", "vars", step=step, local=self._after_loop(step))
        yield from self.retry(step, more)
        if "sink" in step:
            yield from self.sink(step["sink"], more)
        for branch in step.get("case", []):
            yield from self.branch(branch, step)

    def _after_loop(self, step: Map) -> LocalName:
        """The names that exist when the whole loop of the step is over: none of an item."""
        return self.step_names(step)._replace(iter=frozenset()) if "loop" in step else self.step_names(step)

    def task_names(self, site: TaskSite) -> LocalName:
        names = super().task_names(site)
        in_item = site.place not in ("chain", "sink") or ("sink" in site.step and stores_items(site.step))
        return names if in_item or "loop" not in site.step else names._replace(iter=frozenset())

    def routing(self, step: Map) -> Iterator[Site]:
        yield from super().routing(step)
        following = step.get("next")
        for target in following if isinstance(following, list) else ():
            if isinstance(target, dict):
                yield from self.data(target, "args", "next", step=step)

    def task(self, site: TaskSite, local: LocalName) -> Iterator[Site]:
        yield from super().task(site, local)
        yield from self.retry(site.tree, {"local": local, "task": site, "step": site.step})

    def retry(self, holder: Map, more: dict[str, Any]) -> Iterator[Site]:
        for key in ("retry_when", "stop_when"):
            yield from self.guard(holder.get("retry", Map()), key, "retry", **more)

    def sink(self, sink: Map, more: dict[str, Any]) -> Iterator[Site]:
        yield from self.guard(sink, "when", "chain_skip", **more)
        yield from self.data(sink, "args", "chain", **more)
        yield from self.retry(sink, more)

    def branch(self, branch: Map, step: Map) -> Iterator[Site]:
        items = list(chain_items(branch))
        own = self._after_loop(step)
        labels = own.labels | {item.name for item in items}
        more = {"step": step, "local": LocalName(own.iter, labels, own.args)}
        yield from self.guard(branch, "when", "case", step=step, local=own)
        yield from self.retry(branch, more)
        chain = branch.get("then", branch.get("else"))
        yield from self.retry(chain if isinstance(chain, Map) else Map(), more)
        for name, body, container in items:
            if name in ("next", "set"):
                yield from self.data(container, name, "chain", **more)
            elif name == "sink":
                yield from self.sink(body, more)
            else:
                yield from self.data(body, "args", "chain", **more)
                yield from self.retry(body, more)
                yield from self.guard(body.get("poll", Map()), "until", "retry", **more)
