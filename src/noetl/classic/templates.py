"""Places of templates in a classic document, and the names visible there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from noetl.classic.chains import chain_items
from noetl.dsl.checks.scopes import BASE, PIPELINE, PLACES, ROOTS, TOKEN, LocalName, Visibility
from noetl.dsl.checks.templates import Site, SiteFinder
from noetl.dsl.outline import TaskSite
from noetl.dsl.tree import Map

RESULT = frozenset(["result", "response", "this"])
RETRY_NAMES = frozenset(["attempt", "max_attempts", "status_code", "success"])
CLASSIC_ROOTS: dict[str, frozenset[str]] = {
    "case": BASE | TOKEN | RESULT | {"event"},
    "chain": PIPELINE | RESULT | {"event", "keychain"},
    "chain_skip": PIPELINE | RESULT | {"event"},
    "vars": BASE | TOKEN | RESULT | {"event", "iter"},
    "retry": PIPELINE | RESULT | RETRY_NAMES | {"outcome", "error", "data"},
}
CLASSIC_PLACES = {
    "case": "in a case's condition",
    "chain": "in a chain",
    "chain_skip": "in a sink's condition",
    "vars": "in `vars`",
    "retry": "in a retry's condition",
}
VISIBILITY = Visibility(
    roots={
        place: names if place == "workload" else names | {"vars"} for place, names in (ROOTS | CLASSIC_ROOTS).items()
    },
    places=PLACES | CLASSIC_PLACES,
    bare={
        place: frozenset(["loop_index"])
        for place in ROOTS | CLASSIC_ROOTS
        if place not in ("workload", "admit", "loop", "output")
    },
    homes=dict.fromkeys(RETRY_NAMES, ("it exists in `retry_when` and `stop_when`", None)),
)


class ClassicSiteFinder(SiteFinder):
    task_keys = SiteFinder.task_keys | {"retry"}
    input_places = {"chain": "chain", "sink": "chain"}

    def step(self, step: Map) -> Iterator[Site]:
        yield from super().step(step)
        more = {"step": step, "local": self.locals.of_step(step)}
        yield from self.data(step, "args", "input", **more)
        yield from self.data(step, "vars", "vars", **more)
        yield from self.retry(step, more)
        if "sink" in step:
            yield from self.sink(step["sink"], more)
        for branch in step.get("case", []):
            yield from self.branch(branch, step)

    def routing(self, step: Map) -> Iterator[Site]:
        yield from super().routing(step)
        following = step.get("next")
        for target in following if isinstance(following, list) else ():
            if isinstance(target, dict):
                yield from self.data(target, "args", "case", step=step)

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
        own = self.locals.of_step(step)
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
