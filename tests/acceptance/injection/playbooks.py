"""Playbooks that put hostile values into every place that takes one.

There is one for each way in: the payload of a run, the answer of a server, the items of a loop. A task is called
KIND_SHAPE, and its shape says what must come out of it (`SHAPES`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

Task = dict[str, Any]
Tasks = Iterator[tuple[str, Task]]

SEPARATOR = "\x1e"
"""Stands in no value."""
PRINT = "printf '%s\\036'"
HERE = "E_O_F"
GO_ON = {"policy": {"rules": [{"else": {"then": {"do": "continue"}}}]}}
ENTRIES = {"pg": "postgres_credential", "snow": "snowflake_credential"}
"""What signs in, from variables of the worker."""

SHAPES: dict[str, Callable[[str], str]] = {
    "plain": str,
    "quoted": str,
    "inside": lambda value: f"a {value} b",
    "here": lambda value: f"{value}\n",
}
"""What a value has become where it came out."""


class Place(NamedTuple):
    """Servers and files that the values are put into."""

    url: str
    duckdb: str


def from_workload(place: Place, values: Mapping[str, str]) -> dict[str, Any]:
    """The values come with the request."""
    return _document("workload", [_put(place, values, "workload.values")], values={})


def from_http(place: Place, values: Mapping[str, str]) -> dict[str, Any]:
    """The values come from a server, and by the args of an arc."""
    fetch: dict[str, Any] = {"step": "fetch", "tool": [{"get": {"kind": "http", "url": f"{place.url}/values"}}]}
    fetch["next"] = {"arcs": [{"step": "put", "args": {"got": "{{ steps.fetch.result.data }}"}}]}
    return _document("answers", [fetch, _put(place, values, "args.got")])


def from_loop(place: Place) -> dict[str, Any]:
    """The values are the items of a loop. None of the tasks may end the loop."""
    tool = [{label: {**task, "spec": GO_ON}} for label, task in _each(place)]
    loop = {"in": "{{ workload.values }}", "iterator": "value", "spec": {"mode": "parallel", "max_in_flight": 8}}
    return _document("items", [{"step": "put", "loop": loop, "tool": tool}], values=[])


def spliced() -> dict[str, Any]:
    """Two places whose author has asked for harm: what the other playbooks would do if they were wrong."""
    tasks = {
        "drop": {"kind": "postgres", "auth": "pg", "command": "SELECT '{{ workload.sql | raw_sql }}'"},
        "touch": {"kind": "shell", "env": {"CODE": "{{ workload.code }}"}, "cmds": 'eval "$CODE"'},
    }
    return _document(
        "spliced", [{"step": "put", "tool": [{name: one} for name, one in tasks.items()]}], sql="", code=""
    )


def child() -> dict[str, Any]:
    return _document(
        "child", [{"step": "give", "tool": [{"back": {"kind": "noop", "result": "{{ workload.values }}"}}]}], values={}
    )


def _document(name: str, steps: list[dict[str, Any]], **workload: Any) -> dict[str, Any]:
    return {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": name, "path": f"injection/{name}"},
        "keychain": [{"name": name, "kind": kind, "provider": "env", "key": name} for name, kind in ENTRIES.items()],
        "workload": workload,
        "workflow": steps,
    }


def _databases(place: Place) -> dict[str, Task]:
    return {
        "postgres": {"kind": "postgres", "auth": "pg"},
        "duckdb": {"kind": "duckdb", "database": place.duckdb},
        "snowflake": {"kind": "snowflake", "auth": "snow"},
    }


# -- all values at once -----------------------------------------------------------------------------------------------


def _put(place: Place, values: Mapping[str, str], where: str) -> dict[str, Any]:
    each = {name: f"{{{{ {where}.{name} }}}}" for name in values}
    tasks = [*_kept(where), *_shell(each, where), *_http(place, where)]
    for kind, base in _databases(place).items():
        tasks += _sql(kind, base, each)
        tasks += _definitions(kind, base, each, where)
    return {"step": "put", "tool": [{label: task} for label, task in tasks]}


def _kept(values: str) -> Tasks:
    """In `ctx`, in a child, in a program: places where a value is not looked at."""
    all_of_them = f"{{{{ {values} }}}}"
    patch = {"else": {"then": {"do": "continue", "set_ctx": {"kept": "{{ outcome.result }}"}}}}
    yield "noop_passed", {"kind": "noop", "result": all_of_them, "spec": {"policy": {"rules": [patch]}}}
    yield "noop_plain", {"kind": "noop", "result": "{{ ctx.kept }}"}
    yield "child_plain", {"kind": "playbook", "path": "child.yaml", "args": {"values": all_of_them}}
    yield "python_plain", {"kind": "python", "args": {"values": all_of_them}, "code": "result = values"}


def _sql(kind: str, base: Task, each: dict[str, str]) -> Tasks:
    yield f"{kind}_plain", {**base, "query": f"SELECT {_columns(each, '@')}"}
    yield f"{kind}_quoted", {**base, "query": f"""SELECT {_columns(each, "'@'")}"""}
    yield f"{kind}_inside", {**base, "query": f"""SELECT {_columns(each, "'a @ b'")}"""}
    yield f"{kind}_several_plain", {**base, "query": f"SELECT 1 AS one; SELECT {_columns(each, '@')}"}
    likes = " OR ".join(f"word LIKE '{value}_%'" for value in each.values())
    yield f"{kind}_like", {**base, "query": f"SELECT count(*) AS n FROM canary WHERE {likes}"}


def _definitions(kind: str, base: Task, each: dict[str, str], where: str) -> Tasks:
    """Statements that take no parameters: values stand in them as literals."""
    first = next(iter(each))
    yield (
        f"{kind}_made",
        {**base, "command": f"DROP TABLE IF EXISTS made; CREATE TABLE made AS SELECT {_columns(each, '@')}"},
    )
    yield f"{kind}_made_plain", {**base, "query": "SELECT * FROM made"}
    listed = f"{first} IN ({{{{ {where}.values() | list }}}})"
    yield f"{kind}_in", {**base, "query": f"SELECT '1' AS one FROM made WHERE {listed}"}


def _columns(each: dict[str, str], shape: str) -> str:
    return ", ".join(f"{shape.replace('@', value)} AS {name}" for name, value in each.items())


def _shell(each: dict[str, str], values: str) -> Tasks:
    def words(shape: str) -> str:
        return " ".join(shape.replace("@", value) for value in each.values())

    yield "shell_plain", {"kind": "shell", "cmds": f"{PRINT} {words('@')}"}
    yield "shell_single_inside", {"kind": "shell", "cmds": f"""{PRINT} {words("'a @ b'")}"""}
    yield "shell_double_inside", {"kind": "shell", "cmds": f"""{PRINT} {words('"a @ b"')}"""}
    yield "shell_list_plain", {"kind": "shell", "cmds": f"{PRINT} {{{{ {values}.values() | list }}}}"}
    yield "shell_argv_plain", {"kind": "shell", "cmds": [["printf", "%s\\036", *each.values()]]}
    here = "".join(f"cat <<{HERE}\n{value}\n{HERE}\nprintf '\\036'\n" for value in each.values())
    yield "shell_here", {"kind": "shell", "cmds": here}
    substituted = "".join(f"x=$(printf '%s.' {value}); {PRINT} \"${{x%.}}\"\n" for value in each.values())
    yield "shell_substituted_plain", {"kind": "shell", "cmds": substituted}
    spoken = "".join(f'{PRINT} "$V_{name}"\n' for name in each)
    yield "shell_env_plain", {"kind": "shell", "env": {f"V_{name}": one for name, one in each.items()}, "cmds": spoken}
    yield (
        "shell_stdin_plain",
        {"kind": "shell", "stdin": words(f"@{SEPARATOR}").replace(f"{SEPARATOR} ", SEPARATOR), "cmds": "cat"},
    )
    yield "script_plain", {"kind": "script", "ref": f'{PRINT} "$@"\n', "argv": [*each.values()]}


def _http(place: Place, values: str) -> Tasks:
    post = {"kind": "http", "method": "POST", "url": f"{place.url}/echo"}
    yield "http_json", {**post, "json": f"{{{{ {values} }}}}"}
    yield "http_form", {**post, "form": f"{{{{ {values} }}}}"}


# -- one value after the other ----------------------------------------------------------------------------------------


def _each(place: Place) -> Tasks:
    value = "{{ iter.value }}"
    databases = _databases(place)
    snowflake = databases.pop("snowflake")
    yield "snowflake_quoted", {**snowflake, "query": f"SELECT '{value}' AS v"}
    for kind, base in databases.items():
        yield f"{kind}_quoted", {**base, "query": f"SELECT '{value}' AS v"}
        yield f"{kind}_several_inside", {**base, "query": f"SELECT 1 AS one; SELECT 'a {value} b' AS v"}
        yield f"{kind}_interval", {**base, "query": f"SELECT CAST('2026-01-01' AS timestamp) + interval {value} AS v"}
        yield f"{kind}_number", {**base, "query": f"SELECT id FROM canary WHERE id = {value}"}
        yield f"{kind}_name", {**base, "query": "SELECT 1 AS {{ iter.value | ident }}"}
    postgres = databases["postgres"]
    yield "postgres_comment", {**postgres, "command": f"COMMENT ON TABLE canary IS {value}"}
    yield "postgres_setting", {**postgres, "command": f"SET application_name = {value}"}
    yield "shell_inside", {"kind": "shell", "cmds": f'printf %s "a {value} b"'}
    yield (
        "shell_several",
        {"kind": "shell", "cmds": f"cd . && test -e {value} || [ {value} = x ] || echo {value} | cat > /dev/null"},
    )
    yield "http_header", {"kind": "http", "url": f"{place.url}/echo", "headers": {"X-Value": value}}
    yield "http_query", {"kind": "http", "url": f"{place.url}/echo", "params": {"v": value}}
    yield "python_plain", {"kind": "python", "args": {"v": value}, "code": "result = v"}
    yield "noop_inside", {"kind": "noop", "result": f"a {value} b"}
