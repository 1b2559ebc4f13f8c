"""Python code of tasks: it compiles, reads only names that exist there, and its requirements are ones that an installer
can read. Code and requirements are never rendered as templates."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from noetl.dsl.document_parts import Document
from noetl.dsl.problem import Check, Problems, did_you_mean, hint_names
from noetl.dsl.tree import Map, is_template, key_span, span_in
from noetl.model.requirement import fault

SYNTAX = Check("NTL516", "error", "Python code does not compile", stored_ok=True)
NOT_RENDERED = Check("NTL517", "warning", "Python code contains a template")
NOT_A_VARIABLE = Check("NTL518", "warning", "Python code reads a name that only templates have")
INVALID_REQUIREMENT = Check(
    "NTL521", "error", "a requirement or a module of Python code has an invalid name", stored_ok=True
)
UNREADABLE_FILE = Check("NTL220", "error", "the file of a Python task cannot be read", stored_ok=True)
NO_RESULT = Check("NTL522", "warning", "Python code probably has no result")
MAIN_ARGS = Check("NTL523", "warning", "the args of a Python task are not the parameters of its `main`")

MAX_FINDINGS = 100
MAX_CHARACTERS = 100_000
"""Longer code is only compiled."""
NAMES = frozenset(["workload", "ctx", "steps", "tasks", "args", "keychain", "outcome", "_prev", "execution_id"])
BUILTINS = frozenset(["iter", "vars"])
"""Names of templates that Python has too: only `iter.x` and `iter["x"]` mean those of a template."""
_TEMPLATE = re.compile(r"\{\{-?\s*([A-Za-z_][\w.]*(?:\[[^\]{}]*\])*)[^{}]*\}\}")
_RESULT = re.compile(r"\b(?:result|main)\b")
_NAMES = re.compile(rf"\b(?:{'|'.join(sorted(NAMES | BUILTINS))})\b")
ANY_NAME = frozenset(["globals", "locals", "vars", "exec", "eval"])
OUTSIDE = {
    "'return' outside function": "set `result`, or write `def main(...)`",
    "'yield' outside function": "set `result` to a list",
    "'await' outside function": "write `async def main(...)`",
}
"""Errors of Python about statements outside a function, each with the remedy."""


class CodeFinding(NamedTuple):
    check: Check
    offset: int
    message: str
    hint: str | None
    name: str = ""
    """The variable that the code reads."""


class Main(NamedTuple):
    """The function `main` of a piece of code."""

    parameters: tuple[str, ...]
    required: tuple[tuple[str, int], ...]
    """The parameters without a default, with their offsets."""
    others: frozenset[str]
    """Other names that the code reads."""


def check(document: Document, problems: Problems) -> None:
    tasks = [site.tree for site in document.every_task]
    args = frozenset(document.arg_names())
    for inputs in [layer["python"] for layer in document.all_layers if isinstance(layer.get("python"), dict)]:
        _check_packages(inputs, problems)
    for task in tasks:
        if task["kind"] != "python":
            continue
        _check_packages(task, problems)
        variables = args | _libs(task)
        match task:
            case {"code": str(code)}:
                for finding in findings(code):
                    if finding.name not in variables:
                        where = problems.text.offset_in(span_in(task, "code"), code, finding.offset)
                        problems.add(finding.check, where, finding.message, finding.hint)
                if (main := main_of(code)) is not None:
                    _check_args(task, main, problems)
                    for name, offset in main.required:
                        if name not in variables:
                            where = problems.text.offset_in(span_in(task, "code"), code, offset)
                            hint = f"add `{name}` to the `args` of the task, or give the parameter a default"
                            problems.add(MAIN_ARGS, where, f"main() requires {name!r}, which no args provide", hint)
            case {"file": {"path": str(path), "text": str(text)}}:
                for finding in findings(text):
                    if finding.name not in variables:
                        line = text.count("\n", 0, finding.offset) + 1
                        message = f"{path}, line {line}: {finding.message}"
                        problems.add(finding.check, span_in(task, "file"), message, finding.hint)
                if (main := main_of(text)) is not None:
                    _check_args(task, main, problems)


def _check_args(task: Map, main: Main, problems: Problems) -> None:
    args = task.get("args")
    for name in args if isinstance(args, Map) else ():
        if name not in main.parameters and name not in main.others:
            hint = problems.did_you_mean(name, main.parameters) or f"its parameters are {hint_names(main.parameters)}"
            problems.add(MAIN_ARGS, key_span(args, name), f"main() has no parameter {name!r}", hint)


def _check_packages(inputs: Map, problems: Problems) -> None:
    requirements = inputs.get("requirements")
    for place, requirement in enumerate(requirements if isinstance(requirements, list) else ()):
        if problem := fault(requirement) if isinstance(requirement, str) else None:
            versions = "write the name of a package, and its versions after `==`, `>=`, `<` or `~=`"
            hint = "requirements are not rendered: write the package" if is_template(requirement) else versions
            problems.add(INVALID_REQUIREMENT, span_in(requirements, place), problem, hint)
    libs = inputs.get("libs")
    for place, lib in enumerate(libs if isinstance(libs, list) else ()):
        if isinstance(lib, str) and not is_template(lib) and not all(map(str.isidentifier, lib.split("."))):
            hint = "`libs` are modules to import; packages to install are in `requirements`"
            problems.add(INVALID_REQUIREMENT, span_in(libs, place), f"{lib[:80]!r} is not the name of a module", hint)


def _libs(task: Map) -> set[str]:
    libs = task.get("libs", ())
    return {str(name).partition(".")[0] for name in libs} if isinstance(libs, dict | list) else set()


@lru_cache(maxsize=64)
def findings(code: str) -> tuple[CodeFinding, ...]:
    """Problems of a piece of code. A name that it reports may still be one that the task provides."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(code, "<code>", "exec", dont_inherit=True)
            if len(code) > MAX_CHARACTERS or ("{{" not in code and not _NAMES.search(code) and _RESULT.search(code)):
                return ()
            tree = ast.parse(code)
    except SyntaxError as error:
        return (_syntax(code, error),)
    except (ValueError, RecursionError, MemoryError, OverflowError):
        return ()  # left to the worker, which may have other limits
    places = _Places(code)
    problems = [*_templates(tree, places), *_names(tree, places), *_missing_result(tree, code, places)]
    return tuple(sorted(problems, key=lambda finding: finding.offset)[:MAX_FINDINGS])


@lru_cache(maxsize=64)
def main_of(code: str) -> Main | None:
    """The function `main` that is called with the args; None if there is none, or if it takes or reads any name."""
    if len(code) > MAX_CHARACTERS or "def main" not in code:
        return None
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    mains = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    mains = [node for node in mains if node.name == "main"]
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    written = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    read = frozenset(node.id for node in names if isinstance(node.ctx, ast.Load))
    if len(mains) != 1 or mains[0].decorator_list or written & {"main", "result"} or read & ANY_NAME:
        return None
    arguments, places = mains[0].args, _Places(code)
    if arguments.kwarg is not None:
        return None
    positional = [*arguments.posonlyargs, *arguments.args]
    required = positional[: len(positional) - len(arguments.defaults)]
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    required += [argument for argument, default in named if default is None]
    parameters = tuple(argument.arg for argument in [*positional, *arguments.kwonlyargs])
    return Main(parameters, tuple((argument.arg, places[argument]) for argument in required), read)


def _syntax(code: str, error: SyntaxError) -> CodeFinding:
    lines = code.split("\n")
    number = min(max(error.lineno or 1, 1), len(lines))
    line = lines[number - 1]
    column = min(max((error.offset or 1) - 1, 0), len(line))
    if isinstance(error, IndentationError):  # Python names a column of the indentation, or the end of the line
        column = len(line) - len(line.lstrip())
    offset = sum(len(before) + 1 for before in lines[: number - 1]) + column
    message, hint = error.msg or "invalid syntax", OUTSIDE.get(error.msg or "")
    if "{{" in line or "{%" in line:
        hint = _hint(_TEMPLATE.search(line))
    return CodeFinding(SYNTAX, offset, f"the code does not compile: {message}", hint)


def _hint(template: re.Match[str] | None) -> str:
    path = template[1] if template else "workload.x"
    words = re.findall(r"[A-Za-z_]\w*", path)
    return f'code is not rendered: pass the value with `args: {{{words[-1]}: "{{{{ {path} }}}}"}}`, read `{words[-1]}`'


class _Places:
    """Offsets in the code of nodes, whose columns count bytes."""

    def __init__(self, code: str) -> None:
        self.lines = code.split("\n")
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)

    def __getitem__(self, node: ast.expr | ast.stmt | ast.arg) -> int:
        line = self.lines[node.lineno - 1]
        column = node.col_offset if line.isascii() else len(line.encode()[: node.col_offset].decode(errors="ignore"))
        return self.starts[node.lineno - 1] + column


def _templates(tree: ast.Module, places: _Places) -> Iterator[CodeFinding]:
    """Templates in strings, and those that Python reads as a set in a set. `"{{x}}".format()` is none."""
    formatted = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "format"}
    for node in ast.walk(tree):
        template = None
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in formatted:
            template = _TEMPLATE.search(node.value)
        elif isinstance(node, ast.Set) and isinstance(node.elts[0], ast.Set):
            template = _TEMPLATE.search(f"{{{{ {ast.unparse(node.elts[0].elts[0])} }}}}")
        if template is not None and isinstance(node, ast.expr):
            yield CodeFinding(
                NOT_RENDERED,
                places[node],
                f"code is not rendered: {template[0][:60]!r} stays as it is",
                _hint(template),
            )


def _missing_result(tree: ast.Module, code: str, places: _Places) -> Iterator[CodeFinding]:
    """A misspelt `result` or `main`, and definitions that nothing calls. Code may well be run for its effects alone."""
    if _RESULT.search(code):
        return
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in targets:
            if isinstance(target, ast.Name) and target.id not in used and did_you_mean(target.id, ["result"]):
                message = f"the code sets {target.id!r} and no `result`, so its result is null"
                yield CodeFinding(NO_RESULT, places[target], message, "did you mean 'result'?")
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    if functions and all(isinstance(node, definitions) or _is_text(node) for node in tree.body):
        function = functions[-1]
        message = f"the code defines {function.name!r} and calls nothing, so its result is null"
        yield CodeFinding(NO_RESULT, places[function], message, "name the function `main`, or set `result`")


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _names(tree: ast.Module, places: _Places) -> Iterator[CodeFinding]:
    bound, used = set(), []
    in_templates: set[int] = set()
    owners: dict[int, ast.expr] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Name(ctx=ast.Load()):
                used.append(node)
            case ast.Name(id=name) | ast.arg(arg=name):
                bound.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                bound.add(name)
            case ast.alias(name=module, asname=name):
                bound.add(name or module.partition(".")[0])
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                bound.add(name)
            case ast.Attribute(value=ast.Name() as base) | ast.Subscript(value=ast.Name() as base):
                owners[id(base)] = node
            case ast.Set(elts=[ast.Set() as inner, *_]):  # reported as a template
                in_templates.update(id(part) for part in ast.walk(inner))
    if "*" in bound:
        return
    for read in used:
        owner = owners.get(id(read))
        is_template_name = read.id in NAMES or (read.id in BUILTINS and owner is not None)
        if not is_template_name or read.id in bound or id(read) in in_templates:
            continue
        yield CodeFinding(
            NOT_A_VARIABLE, places[read], f"the code has no variable {read.id!r}", _advice(read.id, owner), read.id
        )


def _advice(name: str, owner: ast.expr | None) -> str:
    key = "x"
    match owner:
        case ast.Attribute(attr=attr) if attr not in ("get", "items", "keys", "values"):
            key = attr
        case ast.Subscript(slice=ast.Constant(value=str(text))) if text.isidentifier():
            key = text
    if name == "args":
        return f"the args are the variables of the code: read `{key}`"
    path = name if owner is None and name in ("execution_id", "_prev") else f"{name}.{key}"
    key = name if path == name else key
    return f'pass the value with `args: {{{key}: "{{{{ {path} }}}}"}}` and read `{key}`'
