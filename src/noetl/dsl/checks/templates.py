"""Templates: they parse, and every name in them can be seen where it is used."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, get_args

from noetl.dsl.checks.credentials import UNKNOWN_CREDENTIAL
from noetl.dsl.checks.policies import SKIP_RULE
from noetl.dsl.checks.scopes import PLACES, ROOT_ADVICE, Arriving, LocalName, TemplatePlace
from noetl.dsl.document_parts import COLLECTION_KEYS, ITERATOR_KEYS, Document, TaskSite, callee, labelled_items, rules
from noetl.dsl.other_words import NAMES
from noetl.dsl.payload import UNKNOWN_NAME_CODE, InputName, PlaybookInputs, properties_of, required_by
from noetl.dsl.payload import Path as InputPath
from noetl.dsl.problem import Check, FixHint, Problems, hint_names
from noetl.dsl.shape import TEMPLATE_HERE, KindSource
from noetl.dsl.tree import Map, Seq, is_template, key_span, span_in
from noetl.errors import TemplateError, TemplateSyntax
from noetl.expression import (
    FILTERS,
    FUNCTIONS,
    TESTS,
    Absence,
    Assumptions,
    Read,
    Template,
    changed_secrets,
    doubled_quotes,
    parse,
)
from noetl.model.event_names import end_names, event_names
from noetl.model.kind import Kind
from noetl.model.outcome import Status
from noetl.model.playbook import STEP_FIELDS

SYNTAX = Check("NTL501", "error", "a template does not parse", stored_ok=False)
UNKNOWN_NAME = Check(UNKNOWN_NAME_CODE, "warning", "a template reads a name that only a request can provide")
UNKNOWN_FILTER = Check("NTL503", "error", "a template uses an unknown filter, test or function", stored_ok=False)
BAD_GUARD = Check("NTL504", "error", "a condition is not one expression", stored_ok=False)
WRONG_PLACE = Check("NTL505", "error", "a name is not visible here", stored_ok=False)
SECRET_HERE = Check("NTL507", "error", "a secret is read outside a tool's inputs", stored_ok=False)
CHANGED_SECRET = Check("NTL515", "error", "a template transforms a secret", stored_ok=False)
RAW_SQL = Check("NTL509", "warning", "`raw_sql` splices text into SQL")
DOUBLED_QUOTES = Check("NTL520", "warning", "quotes of a bound value are doubled by hand")
SQL_ONLY = Check("NTL510", "error", "an SQL filter outside SQL", stored_ok=False)
UNKNOWN_PART = Check("NTL513", "error", "a template reads a step or task that does not exist", stored_ok=False)
UNKNOWN_FIELD = Check("NTL519", "error", "a template reads a field that a step does not have", stored_ok=True)
UNBOUND = Check("NTL514", "error", "the value of a template would be read as code", stored_ok=True)
YAML_1_1_BOOLEANS = {"yes": "true", "on": "true", "no": "false", "off": "false"}
NEVER_EQUAL = Check("NTL406", "warning", "a guard compares event.name or outcome.status with a text that never occurs")
HIDDEN = Check("NTL408", "warning", "a bare name hides another")
CTX_NEVER_SET = Check("NTL409", "warning", "a ctx key is read but never written")
ARG_NEVER_SET = Check("NTL411", "warning", "an arg is read that no arc supplies")
ITER_NEVER_SET = Check("NTL412", "warning", "an iter key is read but never written")
WORKLOAD_TYPO = Check("NTL413", "warning", "a workload key is probably misspelt")
FOREIGN_OUTCOME = Check("NTL414", "warning", "a template reads a field that an outcome does not have")

WRITERS = {
    "ctx": (CTX_NEVER_SET, "nothing writes the ctx key {!r}", "write it with `set_ctx`, or use `| default(...)`"),
    "vars": (CTX_NEVER_SET, "nothing writes the variable {!r}", "write it in `vars` of a step that runs before"),
    "args": (ARG_NEVER_SET, "no arc supplies the arg {!r}", "add it to `args` of the arc that leads here"),
    "iter": (ITER_NEVER_SET, "nothing writes the iter key {!r}", "write it with `set_iter`"),
    "workload": (WORKLOAD_TYPO, "`workload` has no default for {!r}", ""),
}
"""For a key that nothing writes, by namespace: the check, its message and advice."""
STEP_FIELD_GUESSES = dict.fromkeys(["output", "outputs", "value", "return", "response"], "result")
_DOTTED = re.compile(r"\b(steps|tasks)\.([A-Za-z_][\w.-]*)")
NOT_INPUTS = frozenset(["kind", "name", "spec", "retry"])


class Site(NamedTuple):
    value: str
    container: Map | Seq
    key: Any
    place: str
    local: LocalName = LocalName()
    task: TaskSite | None = None
    step: Map | None = None
    guard: bool = False
    bound: str = ""
    """`sql`, `snowflake`, `shell` or `words` (of a command without a shell) where a value is never spliced."""
    own_args: bool = False
    path: InputPath = ()
    """Of a default of the workload: its keys."""


def check(sites: SiteFinder) -> PlaybookInputs:
    checker = _Checker(sites)
    for site in sites.find():
        checker.check(site)
    steps, loops = frozenset(checker.step_reads), frozenset(checker.loop_reads)
    return PlaybookInputs(tuple(checker.names.values()), frozenset(checker.reads), steps, loops)


class _Checker:
    def __init__(self, sites: SiteFinder) -> None:
        document, self.problems, self.kinds = sites.document, sites.problems, sites.kinds
        self.sites = sites
        self.places, self.root_advice = sites.places, sites.root_advice
        root, final = document.root, document.executor_spec.get("final_step")
        args = {name for step in document.steps for target in document.all_targets(step) for name in target.args}
        then = (then for site in document.all_tasks for _, then, _ in rules(site.tree))
        schema = document.executor_spec.get("schema", {}).get("workload", {})
        self.workload = frozenset(root.get("workload", {})) | required_by(schema)
        self.inputs = self.workload | properties_of(schema)
        self.ctx = frozenset(key for part in then for key in part.get("set_ctx", {}))
        self.vars = frozenset(document.variables())
        self.args = frozenset(args | ({"summary"} if final else set()))
        self.steps = document.step_names
        self.task_kinds = _task_kinds(document)
        self.keychain = frozenset(entry["name"] for entry in root.get("keychain", []) if "name" in entry)
        self.arriving = Arriving(document, final)
        self.everywhere = self.workload | self.ctx | self.args | self.steps
        self.names: dict[tuple[Any, ...], InputName] = {}
        self.reads: set[InputPath] = set()
        self.step_reads: set[tuple[str, InputPath]] = set()
        self.loop_reads: set[tuple[str, InputPath]] = set()

    def check(self, site: Site) -> None:
        text, sql = site.value, site.bound in ("sql", "snowflake")
        if sql and any(mark in text for mark in ("--", "/*", "//")):
            from noetl.sql.lexing import hide_comments

            text = hide_comments(text, _dialect(site))[0]  # blanked out, since a comment is never rendered
        try:
            template = parse(text)
        except TemplateSyntax as error:
            self._add(SYNTAX, site, error.offset, error.message, error.hint)
            return
        if site.bound and not template.is_constant:
            self._check_bound(site)
        if site.guard and not template.is_expression:
            guard = site.value.strip()[:60]
            condition = YAML_1_1_BOOLEANS.get(guard.lower(), guard)
            span, quoted = span_in(site.container, site.key), f'"{{{{ {condition} }}}}"'
            message, hint = f"{guard!r} is text, not a condition", f"write {quoted}"
            if is_template(site.value):
                message = "a condition is exactly one `{{ expression }}`"
                hint = "put the whole condition into one pair of braces"
            elif not span.style and '"' not in guard:
                hint = FixHint(hint, lambda source: quoted if source == guard else None)
            self.problems.add(BAD_GUARD, self._offset(site, 0) if span.style else span, message, hint)
            return
        self._check_filters(site, template)
        misread = self._misread(site, text) if "-" in text or text.count(".") > 2 else []
        for read in template.reads:
            if not any(start <= read.offset < end for start, end in misread):
                self._check_read(site, template, read)
        if any(comparison.path == ("event", "name") for comparison in template.string_comparisons):
            self._check_events(site, template)
        if "outcome" in self.places[site.place].roots:
            self._check_status(site, template)

    def _add(self, check: Check, site: Site, offset: int, message: str, hint: str | None = None) -> None:
        self.problems.add(check, self._offset(site, offset), message, hint)

    def _offset(self, site: Site, offset: int) -> int:
        """The place in the text of an offset into the template of a site."""
        return self.problems.text.offset_in(span_in(site.container, site.key), site.value, offset)

    def _check_bound(self, site: Site) -> None:
        try:
            if site.bound in ("shell", "words"):
                from noetl.shell_text import check_words, prepare_shell

                prepare_shell(site.value) if site.bound == "shell" else check_words(list(site.container))
            else:
                from noetl.sql import prepare_sql

                prepare_sql(site.value, _dialect(site))
        except TemplateError as error:
            self._add(UNBOUND, site, error.offset, error.message, error.hint)

    def _check_filters(self, site: Site, template: Template) -> None:
        for unknown in template.unknown:
            candidates = {"filter": FILTERS, "test": TESTS, "function": FUNCTIONS}.get(unknown.kind, {})
            hint = self.problems.did_you_mean(unknown.name, candidates) or "see docs/reference/templates.md"
            self._add(UNKNOWN_FILTER, site, unknown.offset, f"unknown {unknown.kind} {unknown.name!r}", hint)
        for error in changed_secrets(template.source) if "keychain" in self.places[site.place].roots else ():
            self._add(CHANGED_SECRET, site, error.offset, error.message, error.hint)
        for offset in doubled_quotes(template.source) if site.bound in ("sql", "snowflake") else ():
            message = "the value is bound, so its doubled quotes are stored as two"
            self._add(DOUBLED_QUOTES, site, offset, message, 'remove `replace("\'", "\'\'")`')
        for name, offset in template.filters:
            if name in ("ident", "raw_sql") and site.bound not in ("sql", "snowflake"):
                self._add(SQL_ONLY, site, offset, f"the filter {name!r} exists only in SQL", "remove it")
            elif name == "raw_sql":
                hint = "bind values as they are; quote names with `ident`"
                self._add(RAW_SQL, site, offset, "`raw_sql` splices text into SQL", hint)

    def _check_read(self, site: Site, template: Template, read: Read) -> None:
        root, (place, roots, provided) = str(read.path[0]), self.places[site.place]
        bare: tuple[frozenset[str], ...] = (self.workload,)
        if site.place != "workload":  # sets that are not united, since a document may have very many names
            bare = (self.everywhere, *site.local, provided)
        if root == "workload":
            self._note_input(site, read.path[1:])
        elif root not in roots and root not in site.local.iter:
            self._note_input(site, read.path)
        if root in roots:
            self._check_path(site, read)
        elif root == "keychain":
            secret = ".".join(map(str, read.path[:3]))
            message = f"{secret!r} is a secret and cannot be read {place}"
            self._add(SECRET_HERE, site, read.offset, message, "give the tool the credential by `auth`")
        elif root == "outcome" and site.place == "skip":
            message = "a rule with `do: skip` cannot read `outcome`: it is decided before the tool runs"
            self._add(SKIP_RULE, site, read.offset, message, "read `ctx`, `iter`, `args` or `_prev`")
        elif any(root in names for names in bare):
            self._check_hidden(site, read)
        elif root in ROOT_ADVICE or (root in self.root_advice and not read.guarded):
            where, advice = ROOT_ADVICE.get(root) or self.root_advice[root]
            self._add(WRONG_PLACE, site, read.offset, f"{root!r} is not visible {place}: {where}", advice)
        else:
            self._check_input(site, template, read, (*bare, roots))

    def _note_input(self, site: Site, path: InputPath) -> None:
        if not site.step:
            self.reads.add(path)
        elif site.place == "loop":
            self.loop_reads.add((site.step["step"], path))
        else:
            self.step_reads.add((site.step["step"], path))

    def _check_input(self, site: Site, template: Template, read: Read, provided: tuple[Collection[str], ...]) -> None:
        """Report a bare name that nothing in the playbook provides, unless the template handles its absence."""
        root, place = str(read.path[0]), self.places[site.place].words
        reached = [absence for absence in template.absences(site.guard)[read.offset] if not absence.is_unreachable]
        if not reached or (read.guarded and not any(absence.fails for absence in reached)):
            return
        advice = NAMES.get(root) or self.problems.did_you_mean(root, *provided)
        hint = advice or f"give it a default in `workload`, or pass it to each run with `--set {root}=VALUE`"
        self._add(UNKNOWN_NAME, site, read.offset, f"unknown name {root!r} {place}", hint)
        mark = self.problems.text.mark(self._offset(site, read.offset))
        for required, assumptions in {self._need(absence, provided) for absence in reached}:
            name = InputName(root, *mark, place, required, site.path, advice, assumptions)
            self.names.setdefault((root, required, assumptions, site.path), name)

    def _need(self, absence: Absence, provided: tuple[Collection[str], ...]) -> tuple[bool, Assumptions]:
        """Whether a template certainly fails without a name, and under which assumptions about the request.

        Of the names that the playbook provides, only those of the workload are known to exist.
        """
        of_playbook = {(name, state) for name, state in absence.assumptions if any(name in names for names in provided)}
        hold = all(name in self.workload and state == "present" for name, state in of_playbook)
        if absence.fails and absence.certain and hold:
            return True, absence.assumptions - of_playbook
        return False, frozenset()

    def _misread(self, site: Site, text: str) -> list[tuple[int, int]]:
        """Report names with dashes or dots after a dot, such as `steps.load-data`, and return their offsets."""
        places = []
        for match in _DOTTED.finditer(text):
            candidates = self.steps if match[1] == "steps" else site.local.labels
            names = [name for name in candidates if not name.isidentifier() and match[2].startswith(name)]
            if not names or match[2].replace("-", ".").partition(".")[0] in candidates:
                continue
            name = max(names, key=len)
            message = f"`{match[1]}.{name}` does not read {match[1][:-1]} {name!r}, whose name is not a plain word"
            self._add(UNKNOWN_PART, site, match.start(), message, f"write `{match[1]}['{name}']`")
            places.append(match.span())
        return places

    def _check_hidden(self, site: Site, read: Read) -> None:
        root = str(read.path[0])
        local = site.local
        arriving = self.arriving.brings(site.step.get("step", "") if site.step else "", root)
        providers = [
            ("an arg", "args", arriving or (root in local.args and not site.own_args)),
            ("a ctx key", "ctx", root in self.ctx),
            ("an iter key", "iter", root in local.iter),
            ("a workload key", "workload", root in self.workload),
            ("a task", "tasks", root in local.labels),
            ("a step", "steps", root in self.steps and root not in local.labels),
        ]
        matching = [(kind, home) for kind, home, provides in providers if provides]
        if len(matching) > 1:
            (first, home), (second, _), *_ = matching
            message = f"{root!r} is {first} here and hides {second} of that name"
            hint = FixHint(f"write `{home}.{root}`", lambda source: f"{home}.{source}")
            self._add(HIDDEN, site, read.offset, message, hint)

    def _check_path(self, site: Site, read: Read) -> None:
        if len(read.path) < 2 or not isinstance(read.path[1], str):
            return
        root, name = read.path[0], read.path[1]
        match root:
            case "steps" | "tasks":
                candidates = self.steps if root == "steps" else site.local.labels
                if name not in candidates:
                    hint = self.problems.did_you_mean(name, candidates) or f"{root}: {hint_names(candidates)}"
                    self._add(UNKNOWN_PART, site, read.offset, f"unknown {root[:-1]} {name!r}", hint)
                elif len(read.path) > 2 and root == "steps":
                    self._check_field(site, read, name, read.path[2])
                elif len(read.path) > 2:
                    self._check_outcome(site, read, f"tasks.{name}", read.path[2], self.task_kinds.get(name, []))
            case "keychain" if name not in self.keychain:
                hint = self.problems.did_you_mean(name, self.keychain) or "declare it in the root `keychain`"
                self._add(UNKNOWN_CREDENTIAL, site, read.offset, f"the keychain has no entry {name!r}", hint)
            case "outcome" if site.task:
                self._check_outcome(site, read, "outcome", name, [site.task.tree["kind"]])
            case "ctx" | "vars" | "args" | "iter" | "workload" if not read.guarded:
                self._check_written(site, read, root, name)
            case _:
                pass

    def _check_field(self, site: Site, read: Read, step: str, field: str | int) -> None:
        if field in STEP_FIELDS:
            return
        guess = STEP_FIELD_GUESSES.get(field) if isinstance(field, str) else None
        hint = f"read `steps.{step}.{guess}`" if guess else self.problems.did_you_mean(field, STEP_FIELDS)
        hint = hint or f"if it is a part of the result, read `steps.{step}.result.{field}`"
        message = f"a step has no field {field!r}; its fields are {', '.join(STEP_FIELDS)}"
        self._add(UNKNOWN_FIELD, site, read.offset, message, hint)

    def _check_outcome(self, site: Site, read: Read, owner: str, field: str | int, kinds: Sequence[str]) -> None:
        """`kinds` are those of the tasks that the outcome may be of."""
        installed = [kind for name in kinds if name != "workbook" and (kind := self.kinds.get(name))]
        fields = {"status", "result", "error", "meta", *(kind.outcome for kind in installed if kind.outcome)}
        if not installed or len(installed) < len(kinds) or field in fields:
            return
        message = f"the outcome of {' or '.join(kind.name for kind in installed)} has no field {field!r}"
        guess = "result" if field == "data" else STEP_FIELD_GUESSES.get(str(field))
        suggestion = f"read `{owner}.{guess}`" if guess else self.problems.did_you_mean(field, fields)
        hint = suggestion or f"fields: {', '.join(sorted(fields))}"
        self._add(FOREIGN_OUTCOME, site, read.offset, message, hint)

    def _check_written(self, site: Site, read: Read, root: str, name: str) -> None:
        candidates: tuple[frozenset[str], ...] = {
            "ctx": (self.ctx, frozenset(["vars"])),
            "vars": (self.vars,),
            "args": (self.args, site.local.args),
            "iter": (site.local.iter,),
            "workload": (self.inputs,),
        }[root]
        if root == "iter" and site.task and (depth := self._loops_above(site.task, name)):
            message = f"the iter key {name!r} is of an outer loop"
            self._add(ITER_NEVER_SET, site, read.offset, message, f"read `iter.{'parent.' * depth}{name}`")
            return
        if any(name in names for names in candidates):
            return
        guess = self.problems.did_you_mean(name, *candidates)
        if root == "workload" and guess is None:  # a request may bring any input along
            return
        check, message, advice = WRITERS[root]
        self._add(check, site, read.offset, message.format(name), guess or advice)

    def _loops_above(self, task: TaskSite, name: str) -> int:
        """How many loops further out the iterator with this name is; 0 if the innermost loop may have the name."""
        loop = task.step.get("loop", {})
        iterators = [outer.tree.get("iterator") for outer in reversed(task.outer)]
        iterators += [loop[key] for key in ITERATOR_KEYS if key in loop]
        if name not in iterators or name in self.sites.set_iter_keys(task.step):
            return 0
        return iterators.index(name)

    def _check_events(self, site: Site, template: Template) -> None:
        expected = self.sites.events(site)
        if expected is None:
            return
        for comparison in template.string_comparisons:
            if comparison.path != ("event", "name") or comparison.op not in ("==", "in"):
                continue
            never = [value for value in comparison.values if not expected.possible.intersection(expected.names(value))]
            if len(never) < len(comparison.values):  # names of other steps are allowed beside it, misspelt ones are not
                never = [value for value in never if not event_names(value)]
            if never:
                names = " or ".join(repr(value) for value in never[:3])
                hint = self.problems.did_you_mean(never[0], expected.candidates) or expected.hint
                self._add(NEVER_EQUAL, site, comparison.offset, f"event.name is never {names} here", hint)

    def _check_status(self, site: Site, template: Template) -> None:
        statuses = get_args(Status)
        for comparison in template.string_comparisons:
            never = [value for value in comparison.values if value not in statuses]
            if comparison.path == ("outcome", "status") and never:
                names = " or ".join(repr(value) for value in never[:3])
                hint = f"outcome.status is {' or '.join(map(repr, statuses))}"
                self._add(NEVER_EQUAL, site, comparison.offset, f"outcome.status is never {names}", hint)


def _task_kinds(document: Document) -> dict[str, list[str]]:
    """The kinds of the tasks of each label, wherever they occur."""
    kinds: dict[str, dict[str, None]] = {}
    for site in document.every_task:
        kinds.setdefault(site.label, {})[site.tree["kind"]] = None
    return {label: list(names) for label, names in kinds.items()}


class ExpectedEvents(NamedTuple):
    """The events that a template may see, and their names."""

    possible: frozenset[str]
    names: Callable[[str], Sequence[str]]
    """The names of the events that a name matches."""
    candidates: frozenset[str]
    """Names that an author may have meant."""
    hint: str


class SiteFinder:
    places: ClassVar[Mapping[str, TemplatePlace]] = PLACES
    root_advice: ClassVar[Mapping[str, tuple[str, str | None]]] = {}
    """Like `ROOT_ADVICE`, for names that a template may also read elsewhere, with a default."""

    def __init__(self, document: Document, problems: Problems, kinds: KindSource) -> None:
        self.document, self.problems, self.kinds = document, problems, kinds
        self._step_names: dict[int, LocalName] = {}

    def events(self, site: Site) -> ExpectedEvents | None:
        """The events that a template may see; None where it sees none."""
        if site.place not in ("arc", "admit"):
            return None
        possible = frozenset(["loop.done" if "loop" in (site.step or {}) else "step.done", "step.failed"])
        if site.place == "admit":
            possible = frozenset(["step.done", "step.failed", "loop.done"])
        return ExpectedEvents(possible, end_names, possible, f"this step ends with {' or '.join(sorted(possible))}")

    def find(self) -> Iterator[Site]:
        spec = self.document.executor_spec
        yield from self.data(self.document.root, "workload", "workload")
        yield from self.data(spec, "output", "output")
        yield from self.defaults(spec)
        for step in self.document.steps:
            yield from self.step(step)
        callers = self._callers()
        for name, site in self.document.workbook:
            local, called = self.task_names(site), callers.get(name, LocalName())
            visible = LocalName(local.iter | called.iter, local.labels | called.labels, local.args | called.args)
            yield from self.task(site, visible)

    def task_names(self, site: TaskSite) -> LocalName:
        (iteration, _, args), labels = self.step_names(site.step), site.labels
        if site.outer:
            iteration |= {outer.tree.get("iterator", "") for outer in site.outer}
            labels = labels.union(*(outer.labels for outer in site.outer))
        return LocalName(iteration, labels, args.union(own) if (own := site.tree.get("args")) else args)

    def step_names(self, step: Map) -> LocalName:
        """The names that the parts of a step outside of its tasks can see; found once for all of its tasks."""
        if id(step) not in self._step_names:
            loop = step.get("loop", {})
            names = {"index", "parent"} | {name for key in ITERATOR_KEYS if (name := loop.get(key))}
            names |= self.set_iter_keys(step)
            labels = frozenset(item.label for item in labelled_items(step.get("tool")))
            self._step_names[id(step)] = LocalName(frozenset(names), labels, frozenset(self.document.step_args(step)))
        return self._step_names[id(step)]

    def set_iter_keys(self, step: Map) -> set[str]:
        """The keys that rules of the step write into `iter`. A task in the workbook has no step."""
        tasks = self.document.tasks(step) if step else ()
        return {name for site in tasks for _, then, _ in rules(site.tree) for name in then.get("set_iter", {})}

    def _callers(self) -> dict[str, LocalName]:
        united: dict[str, tuple[set[str], ...]] = {}
        last: dict[str, LocalName] = {}
        for site in self.document.all_tasks:
            if (name := callee(site.tree)) is not None:
                local = self.task_names(site)
                unions = united.setdefault(name, (set(), set(), set()))
                for whole, part, before in zip(unions, local, last.get(name, LocalName()), strict=True):
                    if part is not before:  # the tasks of a pipeline share most of their sets
                        whole |= part
                last[name] = local
        return {name: LocalName(*map(frozenset, unions)) for name, unions in united.items()}

    def data(self, container: Any, key: Any, place: str, **more: Any) -> Iterator[Site]:
        if isinstance(container, dict) and key not in container:
            return
        value = container[key]
        if isinstance(value, str):
            if is_template(value):
                yield Site(value, container, key, place, **more)
        elif isinstance(value, dict):
            path = more.get("path", ())
            for inner in value:
                if is_template(inner):
                    message = f"the key {inner[:60]!r} is a template, and keys are not rendered"
                    hint = "build the map in a template as a whole"
                    self.problems.add(TEMPLATE_HERE, key_span(value, inner), message, hint)
                if place == "workload":
                    more = {"path": (*path, inner)}
                yield from self.data(value, inner, place, **more)
        elif isinstance(value, list):
            for i in range(len(value)):
                yield from self.data(value, i, place, **more)

    def guard(self, container: Map, key: str, place: str, **more: Any) -> Iterator[Site]:
        if isinstance(container.get(key), str):
            yield Site(container[key], container, key, place, guard=True, **more)

    def defaults(self, layer: Map, **more: Any) -> Iterator[Site]:
        for name, value in layer.items():
            if isinstance(value, dict) and self.kinds.get(name) is not None:
                yield from self.data(layer, name, "input", **more)

    def step(self, step: Map) -> Iterator[Site]:
        for rule in step.get("spec", {}).get("policy", {}).get("admit", {}).get("rules", []):
            yield from self.guard(rule, "when", "admit", step=step)
        for key in COLLECTION_KEYS:
            yield from self.data(step.get("loop", {}), key, "loop", step=step)
        for layer in self.document.layers(step):
            yield from self.defaults(layer, step=step, local=self.step_names(step))
        for site in self.document.tasks(step):
            yield from self.task(site, self.task_names(site))
        yield from self.routing(step)

    def routing(self, step: Map) -> Iterator[Site]:
        following = step.get("next")
        if isinstance(following, dict):
            for arc in following.get("arcs", []):
                yield from self.guard(arc, "when", "arc", step=step)
                yield from self.data(arc, "args", "arc", step=step)

    def task(self, site: TaskSite, local: LocalName) -> Iterator[Site]:
        kind = self.kinds.get(site.tree["kind"])
        place = "chain" if site.place in ("chain", "sink") else "input"
        more = {"local": local, "task": site, "step": site.step}
        for key in site.tree:
            if key in NOT_INPUTS or (kind and key in kind.verbatim):
                continue
            if kind and kind.name == "iterator" and key == "tool":
                continue
            own = key == "args"
            for inner, bound in _parts(site.tree, key, kind):
                yield from self.data(*inner, place, bound=bound, own_args=own, **more)
        yield from self.data(site.tree.get("spec", {}), "timeout", "timeout", **more)
        for rule, then, _ in rules(site.tree):
            at = "skip" if then.get("do") == "skip" else "rule"
            yield from self.guard(rule, "when", at, **more)
            for key in ("delay", "set_iter", "set_ctx"):
                yield from self.data(then, key, at, **more)


def _parts(task: Map, key: str, kind: Kind | None) -> Iterator[tuple[tuple[Any, Any], str]]:
    """The input, or its parts where only some of them are bound: `source.query`, commands that are texts."""
    if kind is None or not (kind.sql or kind.shell):
        yield (task, key), ""
        return
    value, sql = task[key], "snowflake" if kind.name == "snowflake" else "sql"
    inner = {name.partition(".")[2] for name in kind.sql if name.startswith(f"{key}.")}
    if inner and isinstance(value, dict):
        sql = "snowflake" if value.get("kind") == "snowflake" else "sql"
        yield from (((value, part), sql if part in inner else "") for part in value)
    elif key in kind.shell and isinstance(value, list):
        yield from (((value, i), "shell" if isinstance(command, str) else "words") for i, command in enumerate(value))
    else:
        yield (task, key), sql if key in kind.sql else "shell" if key in kind.shell else ""


def _dialect(site: Site) -> Any:
    from noetl.sql.lexing import SNOWFLAKE, STANDARD

    return SNOWFLAKE if site.bound == "snowflake" else STANDARD
