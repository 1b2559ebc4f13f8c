"""Python code and SQL as other generations write them."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from noetl.classic.nodes import as_map, map_at
from noetl.dsl.tree import Map, Seq
from noetl.generations.document import OtherDocument
from noetl.generations.statements import is_list_of_statements, joined

INDENT = "    "
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, *_COMPREHENSIONS)
_DOUBLED = re.compile(r"""(?:\s*\|\s*|\.)replace\(\s*(?:"'"|'\\'')\s*,\s*(?:"''"|'\\'\\'')\s*\)""")
_DOLLARS = re.compile(r"\$(\w*)\$((?:(?!\$\1\$).)*?\{\{.*?)\$\1\$", re.DOTALL)
_CODE_BEFORE = re.compile(r"\b(?:DO|AS)\s*$", re.IGNORECASE)
_TEMPLATE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_WHOLE = re.compile(r"\s*\{\{-?((?:(?!\}\}).)*?)-?\}\}\s*;?\s*", re.DOTALL)
_PATH = re.compile(r"[\w.]+")
_COMMAND = re.compile(r"command_\d+")


def rewrite_sql(document: OtherDocument) -> None:
    """Rewrite the statements of each task; a list of them becomes one text."""
    for _, task, kind in document.all_tasks:
        for key in kind.sql if kind is not None else ():
            value = task.get(key)
            if isinstance(value, str):
                task[key] = _statement(document, task, key)
            elif is_list_of_statements(value):
                task[key] = joined([_statement(document, value, place) for place in range(len(value))])


def _statement(document: OtherDocument, container: Map | Seq, key: Any) -> str:
    text = _DOLLARS.sub(_quoted, _DOUBLED.sub("", container[key]))
    whole = _WHOLE.fullmatch(text)
    if whole and "raw_sql" not in whole[1] and "ident" not in whole[1]:
        expression = whole[1].strip()
        plain = _PATH.fullmatch(expression)
        text = f"{{{{ {expression if plain else f'({expression})'} | raw_sql }}}}"
        hint = "do not build statements from untrusted input: `raw_sql` splices text"
        document.note(container, key, "the whole statement is a template and is spliced with `raw_sql`", hint)
    return text


def _quoted(match: re.Match[str]) -> str:
    """A string between dollars that has a template: a bound value, unless it is code or has quotes."""
    content = match[2].strip() if _TEMPLATE.fullmatch(match[2].strip()) else match[2]
    if _CODE_BEFORE.search(match.string, 0, match.start()):
        return match[0]
    if _TEMPLATE.fullmatch(content):
        return content
    return match[0] if "'" in _TEMPLATE.sub("", content) else f"'{content}'"


def rewrite_python(document: OtherDocument) -> None:
    for _, task, kind in document.all_tasks:
        if (
            kind is None
            or kind.name != "python"
            or task.get("kind") != "python"
            or not isinstance(task.get("code"), str)
        ):
            continue
        code: str = task["code"]
        imports = list(_imports(task))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            tree = None  # reported by the checks
        if tree is not None:
            rewritten = _rewritten(document, task, tree, code)
            if rewritten is None:
                continue
            code = rewritten
        if imports:
            code = "\n".join([*imports, "", code])
        if code != task["code"]:
            task["code"] = "\n".join(line if line.strip() else "" for line in code.split("\n"))


def _imports(task: Map) -> Iterator[str]:
    """The import lines of `libs: {NAME: {from: ..., import: ...}}`, which are removed."""
    libs = task.get("libs")
    if not isinstance(libs, Map):
        return
    for name, lib in list(libs.items()):
        module, item = as_map(lib).get("from"), as_map(lib).get("import")
        if not all(isinstance(part, str | None) for part in (module, item)) or not (module or item):
            continue
        line = f"from {module} import {item}" if module and item else f"import {module or item}"
        yield line if name == (item or module) else f"{line} as {name}"
        del libs[name]
    if not libs:
        del task["libs"]


def _rewritten(document: OtherDocument, task: Map, tree: ast.Module, code: str) -> str | None:
    """The new code; None if it is refused. The task keeps its code then, where the checks find the right places."""
    args, bound = as_map(task.get("args")), _bound(tree)
    provided = bound | set(args) | set(as_map(task.get("libs")))
    starts = [0, *(match.end() for match in re.finditer("\n", code))]
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "context" and "context" not in provided:
            offset = starts[node.lineno - 1] + node.col_offset
            hint = 'pass what it reads with `args: {NAME: "{{ steps.NAME.result }}"}`'
            document.refuse_in(task, "code", offset, "`context` in Python code has no counterpart", hint)
            break
        if isinstance(node, ast.Constant) and _COMMAND.fullmatch(str(node.value)):
            hint = "the result of SQL is `{rows, row_count, columns}`, that of the last statement"
            document.note(task, "code", f"the code reads {node.value!r}, which results of SQL do not have", hint)
        match node:
            case ast.Call(func=ast.Attribute(attr="replace"), args=[ast.Constant(value="'"), ast.Constant(value="''")]):
                hint = "values in SQL are bound: leave the quotes as they are, unless the code builds SQL itself"
                document.note(task, "code", "the code doubles quotes", hint)
    if "input_data" not in args and any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name == "main"
        and any(arg.arg == "input_data" for arg in node.args.args)
        for node in tree.body
    ):
        task["args"] = map_at(args, input_data=args)
        return code
    read = any(isinstance(node, ast.Name) and node.id == "input_data" for node in ast.walk(tree))
    prelude = ""
    if read and "input_data" not in provided:
        pairs = ", ".join(f'"{name}": {name}' for name in args if _is_variable(name))
        prelude = f"input_data = {{{pairs}}}\n"
    returned = _first_return(tree.body)
    if returned is None:
        return prelude + code
    if "main" in bound:
        offset = starts[returned.lineno - 1] + returned.col_offset
        message = "`return` outside a function beside `def main` has no counterpart"
        document.refuse_in(task, "code", offset, message, "set `result` instead")
        return None
    if (use := _module_use(tree, set(args))) is not None:
        message = f"`return` outside a function in code that behaves differently inside one: {use.words}"
        hint = "set `result` instead of `return`, or change this line"
        document.refuse_in(task, "code", starts[use.node.lineno - 1] + use.node.col_offset, message, hint)
        return None
    end = ""
    if _sets_result(tree.body) and not isinstance(tree.body[-1], ast.Return):
        end = "return result\n"
        if "result" not in args and not any(
            isinstance(part, ast.Assign) and _sets_result([part]) for part in tree.body
        ):
            prelude += "result = None\n"
    head = f"def main({', '.join(filter(_is_variable, args))}):\n"
    function = head + _indented(prelude + code.rstrip("\n") + "\n" + end)
    if error := _syntax_error(function):
        line = min(max((error.lineno or 1) - 1 - prelude.count("\n"), 1), len(starts))
        offset = starts[line - 1] + max((error.offset or 1) - 1 - len(INDENT), 0)
        message = f"`return` outside a function in code that cannot become one: {error.msg}"
        document.refuse_in(task, "code", offset, message, "set `result` instead of `return`, or change this line")
        return None
    return function


class _ModuleUse(NamedTuple):
    """Code that behaves differently inside a function."""

    node: ast.stmt | ast.expr
    words: str


def _module_use(tree: ast.Module, args: set[str]) -> _ModuleUse | None:
    for node in ast.walk(tree):
        match node:
            case ast.Global():
                return _ModuleUse(node, f"`global {', '.join(node.names)}`")
            case ast.Call(func=ast.Name(id="globals" | "locals" | "vars" | "exec" as function)):
                return _ModuleUse(node, f"`{function}()`")
    names = list(_module_names(tree.body))
    unset = {name.id for name in names if isinstance(name.ctx, ast.Store) and hasattr(builtins, name.id)} - args
    for name in names:
        if isinstance(name.ctx, ast.Store):
            unset.discard(name.id)
        elif name.id in unset:  # in a function it would be a local variable that has no value yet
            return _ModuleUse(name, f"it reads the builtin `{name.id}` before it assigns to that name")
    return None


def _module_names(body: Iterable[ast.AST]) -> Iterator[ast.Name]:
    """The names outside of functions, classes and comprehensions, in the order of their evaluation."""
    for node in body:
        if isinstance(node, ast.Name):
            yield node
        elif not isinstance(node, _SCOPES):
            children = list(ast.iter_child_nodes(node))
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
                children.reverse()  # the value, then the target
            elif isinstance(node, ast.For | ast.AsyncFor):
                children[:2] = children[1::-1]
            yield from _module_names(children)


def _sets_result(body: Iterable[ast.AST]) -> bool:
    return any(name.id == "result" and isinstance(name.ctx, ast.Store) for name in _module_names(body))


def _syntax_error(code: str) -> SyntaxError | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(code, "<code>", "exec", dont_inherit=True)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError):
        pass  # reported by the checks
    return None


def _is_variable(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)


def _bound(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.alias(name=module, asname=name):
                names.add(name or module.partition(".")[0])
            case ast.ExceptHandler(name=str(name)):
                names.add(name)
    return names


def _first_return(body: list[Any]) -> ast.Return | None:
    """The first `return` outside of functions."""
    for node in body:
        if isinstance(node, ast.Return):
            return node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if inner := _first_return(list(ast.iter_child_nodes(node))):
            return inner
    return None


def _indented(code: str) -> str:
    """The code as the body of a function; the lines of a string that has several stay as they are."""
    inside: set[int] = set()
    depth: list[int] = []
    for token in tokenize.generate_tokens(iter(code.splitlines(keepends=True)).__next__):
        kind = tokenize.tok_name[token.type]
        if kind == "STRING":
            inside |= set(range(token.start[0] + 1, token.end[0] + 1))
        elif kind == "FSTRING_START":
            depth.append(token.start[0])
        elif kind == "FSTRING_END" and depth:
            inside |= set(range(depth.pop() + 1, token.end[0] + 1))
    lines = code.split("\n")
    return "\n".join(
        f"{INDENT}{line}" if line.strip() and number not in inside else line
        for number, line in enumerate(lines, start=1)
    )
