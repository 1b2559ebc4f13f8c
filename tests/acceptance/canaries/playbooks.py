"""Playbooks that use every canary in every kind: where it goes well, where it fails, and where it takes too long.

A task is called ok_..., bad_... or slow_..., and must end so. One that is called does_... goes well too, but its result
would not hold a canary in any case.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from tests.acceptance.canaries.canary import Canary
from tests.acceptance.canaries.world import NOBODY, World
from tests.servers.podman import IMAGE
from tests.servers.snowflake import HOLD

Task = dict[str, Any]
Tasks = Iterator[tuple[str, Task]]

SQL_KINDS = {"postgres": "pg", "duckdb": None, "snowflake": "snow"}
"""Kinds that take SQL, and what signs in."""
NAME_BYTES = 63
"""Of a name, PostgreSQL says no more than this."""
HEADERS = ("long", "quotes", "backslashes", "percent", "ampersand", "spaces", "digits", "dashed", "json")
"""What can stand in a header."""
BULK = 400
SHORT_SECONDS = 4
CONTAINER_SECONDS = 4
SAID = {"$append": "{{ outcome.error.message | default('') }}"}
CONTINUE = {"else": {"then": {"do": "continue", "set_ctx": {"said": SAID}}}}


def ref(name: str) -> str:
    """A template that is the canary."""
    return f"{{{{ {place(name)} }}}}"


def place(name: str) -> str:
    return f"keychain.{name}.value" if name.startswith("from_") else f"keychain.texts.{name}"


def refs(texts: list[Canary]) -> dict[str, str]:
    return {text.name: ref(text.name) for text in texts}


def playbook(world: World, name: str, steps: dict[str, Tasks], *, at_once: bool = False, **spec: Any) -> dict[str, Any]:
    """Steps one after the other, or all at once. A task that fails does not end its step."""
    made = [
        {"step": step, "tool": [{label: _going_on(task)} for label, task in tasks]} for step, tasks in steps.items()
    ]
    if at_once:
        arcs = [{"step": step} for step in steps]
        made = [{"step": "start", "next": {"spec": {"mode": "inclusive"}, "arcs": arcs}}, *made]
    else:
        for step, following in pairwise(made):
            step["next"] = {"arcs": [{"step": following["step"]}]}
    return {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": name, "path": f"canaries/{name}"},
        "executor": {"spec": spec},
        "keychain": world.keychain,
        "workflow": made,
    }


def _going_on(task: Task) -> Task:
    return {**task, "spec": {"policy": {"rules": [CONTINUE]}, **task.get("spec", {})}}


def short(tasks: Tasks) -> dict[str, Tasks]:
    """The tasks with little time, each in a step of its own."""
    return {f"step_{label}": iter([(label, {**task, "spec": {"timeout": SHORT_SECONDS}})]) for label, task in tasks}


# -- http -------------------------------------------------------------------------------------------------------------


def http(world: World) -> Tasks:
    url, every = world.echo.url, refs(world.texts)
    post = {"kind": "http", "method": "POST"}
    headers = {f"X-{name}": ref(name) for name in HEADERS}
    yield "ok_json", {**post, "url": f"{url}/echo", "json": every, "headers": headers}
    yield "ok_form", {**post, "url": f"{url}/echo", "form": every, "params": every}
    yield "ok_body", {**post, "url": f"{url}/echo", "body": "\n".join(f"<{one}>" for one in every.values())}
    yield "ok_path", {**post, "url": f"{url}/echo/{{{{ {place('quotes')} | urlencode }}}}/x"}
    yield "ok_bulk", {**post, "url": f"{url}/bulk", "json": every}
    yield "ok_bytes", {**post, "url": f"{url}/bytes", "json": every}
    yield "ok_file", {**post, "url": f"{url}/bulk", "json": every, "spec": {"results": {"store": {"kind": "file"}}}}
    yield "ok_moved", {**post, "url": f"{url}/moved", "params": every}
    yield "ok_named", {**post, "url": f"{url}/named", "headers": headers}
    for auth in ("bearer", "basic", "key_header", "key_query", "oauth"):
        yield f"ok_{auth}", {**post, "url": f"{url}/echo/{auth}", "auth": auth}
        yield f"bad_{auth}", {**post, "url": f"{url}/reject/{auth}", "auth": auth}
        yield f"bad_{auth}_gone", {"kind": "http", "url": f"http://{NOBODY}/{auth}", "auth": auth}
    yield "bad_oauth_refused", {"kind": "http", "url": f"{url}/echo", "auth": "oauth_refused"}
    yield "bad_json", {**post, "url": f"{url}/reject", "json": every, "headers": headers, "params": every}
    yield "bad_text", {**post, "url": f"{url}/text", "form": every}
    yield "ok_answer", {**post, "url": f"{url}/broken", "json": every}
    yield "bad_gone", {**post, "url": f"http://{NOBODY}/{{{{ {place('long')} }}}}", "params": every, "json": every}
    yield "bad_inline", {**post, "url": f"{url}/reject", "auth": {"kind": "bearer", "token": ref("long")}}
    for text in world.texts:
        yield f"bad_url_{text.name}", {"kind": "http", "url": ref(text.name)}
        yield f"bad_port_{text.name}", {"kind": "http", "url": f"http://127.0.0.1:{ref(text.name)}/"}
        if "#" not in text.value:  # a fragment is not sent: no answer could tell the whole of it
            yield f"bad_spliced_{text.name}", {"kind": "http", "url": f"http://{NOBODY}/x/{ref(text.name)}/y"}
            if "%" not in text.value:  # what is no escape and looks like one becomes something else on its way
                yield f"bad_echoed_{text.name}", {"kind": "http", "url": f"{url}/reject/{ref(text.name)}/y"}
        yield f"bad_method_{text.name}", {"kind": "http", "method": ref(text.name), "url": url}
        yield (
            f"bad_name_{text.name}",
            {"kind": "http", "url": url, "headers": f"{{{{ {{'X: ' ~ {place(text.name)}: 1}} }}}}"},
        )
    yield "bad_header", {"kind": "http", "url": url, "headers": {"X": f"a\n{ref('pem')}"}}


def slow_http(world: World) -> Tasks:
    every = refs(world.texts)
    yield (
        "slow_http",
        {"kind": "http", "method": "POST", "url": f"{world.echo.url}/slow", "json": every, "auth": "oauth"},
    )


# -- sql --------------------------------------------------------------------------------------------------------------


def sql(world: World, kind: str) -> Tasks:
    base: Task = {"kind": kind, "auth": auth} if (auth := SQL_KINDS[kind]) else {"kind": kind}
    names = [text.name for text in world.texts]
    columns = ", ".join(f"{ref(name)} AS {name}" for name in names)
    yield "ok_select", {**base, "query": f"SELECT {columns}"}
    yield "ok_inside", {**base, "query": f"SELECT 'a {ref('quotes')} b {ref('umlauts')} c' AS x"}
    yield "ok_statements", {**base, "query": f"SELECT 1; SELECT {columns}"}
    yield "ok_bulk", {**base, "query": f"SELECT repeat({ref('backslashes')}, {BULK}) AS x, {ref('emoji')} AS y"}
    yield (
        "ok_params",
        {**base, "query": f"SELECT {'%s' if kind == 'postgres' else '?'} AS x", "params": [ref("percent")]},
    )
    yield "bad_syntax", {**base, "query": f"SELEC {ref('long')}; SELEC {ref('spaces')}"}
    for name in names:
        day = f"CAST({ref(name)} AS date)"
        yield f"bad_cast_{name}", {**base, "query": f"SELECT {day}"}
        yield f"bad_second_{name}", {**base, "query": f"SELECT 1; SELECT {day}"}
    for text in world.texts:
        if len(text.value.encode()) <= NAME_BYTES and text.name != "control":
            yield f"bad_table_{text.name}", {**base, "query": f"SELECT * FROM {{{{ {place(text.name)} | ident }}}}"}


def postgres(world: World) -> Tasks:
    yield from sql(world, "postgres")
    pg = {"kind": "postgres", "auth": "pg_role"}
    table = "canary_words"
    rows = [{"word": ref(text.name)} for text in world.texts]
    yield "does_table", {**pg, "command": f"CREATE TABLE {table} (word text UNIQUE)"}
    yield "does_copy", {**pg, "table": table, "rows": rows}
    yield "ok_read", {**pg, "query": f"SELECT word, md5(word) AS sum FROM {table}"}
    yield (
        "ok_base64",
        {
            **pg,
            "query": f"SELECT replace(encode(convert_to(word, 'UTF8'), 'base64'), chr(10), '') AS x FROM {table}",
        },
    )
    yield "bad_copy", {**pg, "table": table, "rows": rows}
    yield "bad_unique", {**pg, "command": f"INSERT INTO {table} VALUES ({ref('quotes')})"}
    yield "bad_raise", {**pg, "command": f"SELECT set_config('a.b', {ref('json')}, false), 1 / 0"}
    yield (
        "bad_notice",
        {
            **pg,
            "command": f"SELECT set_config('a.b', {ref('percent')}, false); "
            "DO $$ BEGIN RAISE NOTICE 'n %', current_setting('a.b'); RAISE EXCEPTION 'e %', current_setting('a.b') "
            "USING DETAIL = current_setting('a.b'), HINT = current_setting('a.b'); END $$",
        },
    )
    for auth in ("pg_wrong", "pg_gone", "pg_broken"):
        yield f"bad_{auth}", {"kind": "postgres", "auth": auth, "query": "SELECT 1"}
    yield "bad_map", {"kind": "postgres", "auth": {"dsn": f"host=127.0.0.1 port={ref('long')}"}, "query": "SELECT 1"}


def snowflake(world: World) -> Tasks:
    yield from sql(world, "snowflake")
    yield "bad_snow_wrong", {"kind": "snowflake", "auth": "snow_wrong", "query": "SELECT 1"}


def duckdb(world: World) -> Tasks:
    yield from sql(world, "duckdb")
    yield "bad_file", {"kind": "duckdb", "query": f"SELECT * FROM read_csv({ref('quotes')})"}
    yield "bad_path", {"kind": "duckdb", "database": f"{world.lab.folder}/none/{ref('long')}", "query": "SELECT 1"}


def transfer(world: World) -> Tasks:
    source = {"kind": "postgres", "auth": "pg", "query": f"SELECT {ref('quotes')}::text AS a, {ref('pem')}::text AS b"}
    away = f"{world.lab.folder}/vault"
    to_http = {"kind": "http", "url": f"{world.echo.url}/echo", "auth": "oauth"}
    yield "does_rows", {"kind": "transfer", "source": source, "target": to_http}
    yield (
        "does_rows_file",
        {"kind": "transfer", "source": source, "target": {"kind": "file", "path": f"{away}/rows.csv"}},
    )
    yield (
        "bad_rows_file",
        {
            "kind": "transfer",
            "source": {"kind": "file", "path": f"{away}/rows.csv"},
            "target": {**to_http, "url": f"{world.echo.url}/reject"},
        },
    )
    yield "bad_rows", {"kind": "transfer", "source": source, "target": {**to_http, "url": f"http://{NOBODY}/"}}
    yield "bad_rows_sign", {"kind": "transfer", "source": {**source, "auth": "pg_wrong"}, "target": to_http}
    yield "bad_rows_dsn", {"kind": "transfer", "source": {**source, "auth": "pg_broken"}, "target": to_http}
    cast = {**source, "query": f"SELECT CAST({ref('dollar')} AS integer)"}
    yield "bad_rows_cast", {"kind": "transfer", "source": cast, "target": to_http}
    yield "bad_rows_url", {"kind": "transfer", "source": source, "target": {"kind": "http", "url": ref("ampersand")}}
    echoed = {"kind": "http", "url": f"{world.echo.url}/text", "headers": {"X-A": ref("spaces")}}
    yield "bad_rows_source", {"kind": "transfer", "source": echoed, "target": to_http}


def slow_sql(world: World) -> Tasks:
    yield (
        "slow_postgres",
        {
            "kind": "postgres",
            "auth": "pg_role",
            "query": f"SELECT pg_sleep(60), {ref('umlauts')} AS x",
        },
    )
    yield (
        "slow_postgres_statements",
        {
            "kind": "postgres",
            "auth": "pg",
            "query": f"SELECT set_config('a.b', {ref('json')}, false); SELECT pg_sleep(60)",
        },
    )


def slow_transfer(world: World) -> Tasks:
    slow = {"kind": "postgres", "auth": "pg", "query": f"SELECT {ref('dollar')}::text AS a, pg_sleep(60)::text AS b"}
    quick = {"kind": "duckdb", "query": f"SELECT {ref('quotes')} AS a, {ref('pem')} AS b"}
    to_http = {"kind": "http", "url": f"{world.echo.url}/hold/slow_rows", "auth": "oauth"}
    yield "slow_rows_source", {"kind": "transfer", "source": slow, "target": to_http}
    yield "slow_rows_target", {"kind": "transfer", "source": quick, "target": to_http}


def slow_duckdb(world: World) -> Tasks:
    query = f"SELECT count(*) FROM range(100000000000) AS t(i) WHERE i::text = {ref('pem')}"
    yield "slow_duckdb", {"kind": "duckdb", "query": query}
    yield "slow_snowflake", {"kind": "snowflake", "auth": "snow", "query": query}


# -- processes --------------------------------------------------------------------------------------------------------

SPEAK = """
import base64, json, sys, time, urllib.parse
for name, word in words.items():
    for one in (word, base64.b64encode(word.encode()).decode(), urllib.parse.quote(word), json.dumps(word), repr(word)):
        print(name, one)
        print(name, "user:" + one, file=sys.stderr)
    print(base64.urlsafe_b64encode(f"a{word}b".encode()).decode(), json.dumps(json.dumps(word)))
sys.stdout.flush()
"""
RETURN = "result = {'words': words, 'keys': {word: 1 for word in words.values()}, 'nested': json.dumps([words] * 3)}"
LARGE = f"result = [words] * {BULK}"
DRIP = """
import sys, time
for letter in "".join(words.values()):
    sys.stdout.write(letter)
    sys.stdout.flush()
print()
result = 1
"""
RAISE = """
def sign_in(word):
    secret = word
    raise ValueError(f"{secret} was refused", secret)

for word in words.values():
    try:
        sign_in(word)
    except ValueError as error:
        print(error, repr(error))
sign_in("".join(words.values()))
"""


def python(world: World) -> Tasks:
    args = {"words": refs(world.texts)}
    base = {"kind": "python", "args": args}
    yield "ok_speak", {**base, "code": SPEAK + RETURN}
    yield "ok_large", {**base, "code": LARGE}
    yield "ok_file", {**base, "code": LARGE, "spec": {"results": {"store": {"kind": "file"}}}}
    yield "bad_bytes", {**base, "code": "result = b'\\xff' + '|'.join(words.values()).encode()"}
    yield "does_drip", {**base, "code": DRIP}
    yield "ok_auth", {"kind": "python", "auth": "oauth", "code": "print(auth)\nresult = dict(auth)"}
    yield "ok_main", {**base, "code": "def main(words):\n    return list(words.values())"}
    yield "bad_raise", {**base, "code": RAISE}
    yield "bad_key", {**base, "code": "{}[words['spaces']]"}
    yield "bad_exit", {**base, "code": "import sys\nsys.exit('|'.join(words.values()))"}
    yield "bad_int", {**base, "code": "int(words['percent'])"}
    yield "bad_result", {**base, "code": "result = {words['quotes']: object()}"}
    yield "bad_libs", {**base, "libs": [ref("dashed")], "code": "result = 1"}
    yield "bad_death", {**base, "code": "print(words, flush=True)\nimport os\nos.kill(os.getpid(), 9)"}


def surroundings(world: World) -> Tasks:
    """Variables of the worker that are secrets: a program has no part in them."""
    code = "import os\nresult = {name: value for name, value in os.environ.items() if name.startswith('NOETL')}"
    yield "does_python_environment", {"kind": "python", "code": f"{code}\nprint(result)"}
    yield "does_shell_environment", {"kind": "shell", "cmds": ["env", "tr '\\0' '\\n' < /proc/self/environ"]}
    yield "does_script_environment", {"kind": "script", "ref": "env; tr '\\0' '\\n' < /proc/self/environ"}


REPEAT = "i=0; while [ $i -lt 9000 ]; do i=$((i+1));"


def shell(world: World) -> Tasks:
    names = [text.name for text in world.texts]
    env = {f"WORD_{name}": ref(name) for name in names}
    spoken = "\n".join(f'printf "%s\\n" "$WORD_{name}"' for name in names)
    base = {"kind": "shell", "env": env}
    yield "ok_env", {**base, "cmds": [f"{spoken}\nsleep 0.1", ["env"]]}
    yield "ok_stdin", {"kind": "shell", "stdin": "\n".join(refs(world.texts).values()), "cmds": "cat; sleep 0.1"}
    yield (
        "ok_words",
        {"kind": "shell", "cmds": "\n".join(f"printf '%s\\n' {ref(name)} >&2" for name in names) + "\nsleep 0.1"},
    )
    yield (
        "ok_quoted",
        {"kind": "shell", "cmds": f'x=\'a {ref("quotes")}\'; y="b {ref("dollar")}"; printf \'%s %s\' "$x" "$y"'},
    )
    yield (
        "ok_encoded",
        {**base, "cmds": f"({spoken}) | base64 -w 0; ({spoken}) | while read -r x; do printf '%s' \"$x\"; done"},
    )
    yield (
        "ok_auth",
        {"kind": "shell", "auth": "basic", "cmds": 'printf %s "$NOETL_AUTH_USERNAME:$NOETL_AUTH_PASSWORD" | base64'},
    )
    yield (
        "ok_much",
        {**base, "cmds": f'{REPEAT} printf "%s" "$WORD_long $WORD_quotes"; done'},
    )
    yield "bad_status", {**base, "cmds": f"{spoken}\nprintf '%s' \"$WORD_pem\" >&2\nexit 3"}
    yield (
        "bad_much",
        {
            **base,
            "cmds": f'{REPEAT} printf "%s" "$WORD_long$WORD_quotes" >&2; done; exit 1',
        },
    )
    yield "bad_argument", {"kind": "shell", "cmds": [["printf", "%s", ref("long")]]}
    yield "bad_arguments", {"kind": "shell", "cmds": [["sh", "-c", "sleep 0.1", ref("umlauts"), ref("pem")]]}
    yield "bad_program", {"kind": "shell", "cmds": [[ref("spaces")]]}
    yield "bad_shell", {"kind": "shell", "shell": ref("dashed"), "cmds": "true"}
    yield "bad_cwd", {"kind": "shell", "cwd": f"/none/{ref('ampersand')}", "cmds": "true"}


def script(world: World) -> Tasks:
    text = "#!/bin/sh\nenv\ncat\nsleep 0.1\n"
    base = {"kind": "script", "env": {f"WORD_{text.name}": ref(text.name) for text in world.texts}, "stdin": ref("pem")}
    yield "ok_ref", {**base, "ref": text}
    yield "ok_auth", {"kind": "script", "ref": text, "auth": "oauth"}
    yield "bad_ref", {**base, "ref": f"{text}exit 4\n"}
    yield "bad_text", {"kind": "script", "ref": f"#!/bin/cat\n{ref('pem')}\n"}
    yield "bad_argv", {**base, "ref": text, "argv": ["x", ref("digits")]}
    yield "bad_path", {**base, "path": f"none/{ref('emoji')}"}
    yield "bad_interpreter", {**base, "ref": text, "interpreter": ref("long")}


def slow_processes(world: World) -> Tasks:
    args = {"words": refs(world.texts)}
    yield (
        "slow_python",
        {"kind": "python", "args": args, "code": f"{SPEAK}print(words, end='', flush=True)\ntime.sleep(60)"},
    )
    yield "slow_shell", {"kind": "shell", "env": {"W": ref("json")}, "cmds": 'printf "%s" "$W"; sleep 60'}
    yield "slow_script", {"kind": "script", "env": {"W": ref("quotes")}, "ref": 'printf "%s" "$W" >&2; sleep 60'}


def container(world: World) -> Tasks:
    env = {f"WORD_{text.name}": ref(text.name) for text in world.texts}
    base = {"kind": "container", "image": IMAGE, "network": "none", "env": env, "pull": "never"}
    yield "ok_env", {**base, "command": ["env"]}
    yield "ok_stdin", {**base, "stdin": "\n".join(refs(world.texts).values()), "command": ["cat"]}
    yield "ok_words", {**base, "command": f"echo 'a {ref('dollar')}' {ref('umlauts')}; sleep 0.1"}
    yield "bad_status", {**base, "command": f"env; echo {ref('quotes')} >&2; exit 3"}
    yield "bad_argument", {**base, "command": ["echo", ref("long")]}
    yield "bad_image", {**base, "image": f"localhost/{ref('dashed')}:1"}
    yield "bad_user", {**base, "user": ref("spaces"), "command": ["true"]}
    yield "bad_folder", {**base, "workdir": ref("ampersand"), "command": ["true"]}
    late = {**base, "command": f"echo {ref('json')}; sleep 60", "spec": {"timeout": CONTAINER_SECONDS}}
    yield "slow_container", late


# -- quantum ----------------------------------------------------------------------------------------------------------

HEAD = 'OPENQASM 2.0; include "qelib1.inc";'


def quantum(world: World) -> Tasks:
    """Nobody signs in to a simulator; a canary may stand in a comment, or where it makes no sense."""
    base = {"kind": "quantum", "shots": 8}
    flip = "qreg q[1]; creg c[1]; x q[0]; measure q -> c;"
    words = "\n// ".join([f"{{{{ {place(text.name)} | b64encode }}}}" for text in world.texts] + [ref("dashed")])
    yield "ok_circuit", {**base, "circuit": f"{HEAD}\n// {words}\n{flip}"}
    yield "ok_submit", {**base, "operation": "submit", "circuit": f"{HEAD}\n// {ref('quotes')}\n{flip}"}
    yield "bad_gate", {**base, "circuit": f"{HEAD} {flip} gate_{ref('digits')} q[0];"}
    yield "bad_parameter", {**base, "circuit": f"{HEAD} {flip}", "parameters": {"x": ref("spaces")}}
    yield "bad_job", {"kind": "quantum", "operation": "fetch", "job": {"circuit": ref("pem")}}


def slow_quantum(world: World) -> Tasks:
    gates = "".join(f"rx(0.{n}) q; cx q[{n % 26}], q[{(n + 1) % 26}];\n" for n in range(1, 200))
    circuit = f"{HEAD}\n// {ref('long')}\nqreg q[26]; creg c[26]; h q; {gates} measure q -> c;"
    yield "slow_quantum", {"kind": "quantum", "circuit": circuit}


# -- stores -----------------------------------------------------------------------------------------------------------


def stores(world: World) -> Tasks:
    every, elsewhere = refs(world.texts), {"endpoint": f"{world.echo.url}/reject"}
    folder = f"{world.lab.folder}/vault/objects"
    at = {kind: _store(world, kind) for kind in ("s3", "gcs", "object")}
    at["folder"] = {"kind": "object", "url": f"file://{folder}"}
    for name, base in at.items():
        key = f"words/{{{{ {place('spaces')} }}}}.json"
        yield f"ok_{name}_put", {**base, "operation": "put", "key": key, "data": every}
        yield f"ok_{name}_get", {**base, "operation": "get", "key": key}
        yield f"ok_{name}_list", {**base, "operation": "list", "prefix": "words/"}
        yield f"does_{name}_text", {**base, "operation": "put", "key": "text", "data": f"a {ref('pem')} b"}
        yield f"ok_{name}_read", {**base, "operation": "get", "key": "text"}
        yield f"ok_{name}_copy", {**base, "operation": "copy", "key": key, "destination": f"copy/{ref('umlauts')}"}
        yield f"bad_{name}_none", {**base, "operation": "get", "key": f"none/{ref('long')}"}
        if name != "folder":
            yield f"bad_{name}_refused", {**base, **elsewhere, "operation": "put", "key": key, "data": every}
            yield f"bad_{name}_gone", {**base, "endpoint": f"http://{NOBODY}", "operation": "get", "key": key}
    for name in ("s3", "gcs"):
        yield f"bad_{name}_bucket", {**at[name], "bucket": ref("quotes"), "operation": "list"}
    yield "bad_object_url", {"kind": "object", "url": ref("markup"), "operation": "list"}


def slow_stores(world: World) -> Tasks:
    key, every = f"slow/{ref('spaces')}", refs(world.texts)
    for kind in ("gcs", "s3", "object"):
        store = {**_store(world, kind), "endpoint": f"{world.echo.url}/hold/slow_{kind}", "key": key}
        yield f"slow_{kind}_put", {**store, "operation": "put", "data": every}
        yield f"slow_{kind}_get", {**store, "operation": "get"}


def _store(world: World, kind: str) -> Task:
    """A store that one signs in to."""
    where = {"url": f"s3://{world.buckets['s3']}"} if kind == "object" else {"bucket": world.buckets[kind]}
    return {"kind": kind, "auth": "gcs" if kind == "gcs" else "s3", **where}


def nats(world: World) -> Tasks:
    every, base = refs(world.texts), {"kind": "nats", "auth": "nats"}
    kv, objects = {**base, "bucket": world.buckets["kv"]}, {**base, "bucket": world.buckets["objects"]}
    yield (
        "does_publish",
        {**base, "operation": "publish", "subject": "words", "data": every, "headers": {"X-A": ref("spaces")}},
    )
    yield "does_put", {**kv, "operation": "kv_put", "key": "words", "data": every}
    yield "ok_get", {**kv, "operation": "kv_get", "key": "words"}
    yield "ok_named", {**kv, "operation": "kv_put", "key": ref("long"), "data": ref("pem")}
    yield "ok_keys", {**kv, "operation": "kv_keys"}
    yield "ok_store", {**objects, "operation": "object_put", "key": ref("dashed"), "data": every}
    yield "ok_load", {**objects, "operation": "object_get", "key": ref("dashed")}
    yield "ok_objects", {**objects, "operation": "object_list"}
    yield "bad_answer", {**base, "operation": "request", "subject": "nobody", "data": every}
    yield "bad_key", {**kv, "operation": "kv_get", "key": f"none.{ref('long')}"}
    yield "bad_name", {**kv, "operation": "kv_put", "key": ref("spaces"), "data": 1}
    yield "bad_subject", {**base, "operation": "publish", "subject": f"a b {ref('long')}", "data": 1}
    yield (
        "bad_header",
        {**base, "operation": "publish", "subject": "a", "data": 1, "headers": {"a": f"x\r\n{ref('pem')}"}},
    )
    wrong = {"kind": "nats", "auth": "nats_wrong", "url": world.endpoints["nats"]}
    yield "bad_sign", {**wrong, "operation": "publish", "subject": "a", "data": 1}
    gone = f"nats://me:{{{{ {place('long')} }}}}@{NOBODY}"
    yield "bad_gone", {"kind": "nats", "url": gone, "operation": "publish", "subject": "a", "data": 1}


def slow_nats(world: World) -> Tasks:
    base = {"kind": "nats", "auth": "nats", "operation": "request"}
    yield "slow_nats", {**base, "subject": "silent", "data": refs(world.texts)}


# -- what is no server ------------------------------------------------------------------------------------------------


def control(world: World) -> Tasks:
    every = refs(world.texts)
    yield "ok_noop", {"kind": "noop", "result": every}
    yield "ok_text", {"kind": "noop", "result": "".join(f"<{one}>" for one in every.values())}
    yield "ok_b64", {"kind": "noop", "result": [f"{{{{ {place(text.name)} | b64encode }}}}" for text in world.texts]}
    yield "ok_json", {"kind": "noop", "result": [f"{{{{ {place(text.name)} | tojson }}}}" for text in world.texts]}
    yield "ok_quote", {"kind": "noop", "result": [f"{{{{ {place(text.name)} | urlencode }}}}" for text in world.texts]}
    yield "ok_book", {"kind": "workbook", "name": "say", "args": {"words": every}}
    yield (
        "ok_iterator",
        {
            "kind": "iterator",
            "in": [*every.values()],
            "iterator": "word",
            "tool": [
                {
                    "ok_say": {
                        "kind": "python",
                        "args": {"word": "{{ iter.word }}"},
                        "code": "print(word)\nresult = word",
                    }
                }
            ],
        },
    )
    yield (
        "ok_iterator_at_once",
        {
            "kind": "iterator",
            "in": [1, 2, 3],
            "iterator": "n",
            "spec": {"mode": "parallel"},
            "tool": [{"ok_each": {"kind": "noop", "result": ["{{ iter.n }}", every]}}],
        },
    )
    yield (
        "bad_iterator",
        {
            "kind": "iterator",
            "in": [ref("quotes")],
            "iterator": "word",
            "tool": [
                {"bad_say": {"kind": "python", "args": {"word": "{{ iter.word }}"}, "code": "raise KeyError(word)"}}
            ],
        },
    )
    yield "does_secret", {"kind": "secrets", "provider": "env", "key": "from_env"}
    yield "ok_opened", {"kind": "noop", "result": "{{ tasks.does_secret.result.value }}"}
    yield "ok_child", {"kind": "playbook", "path": "child.yaml", "args": {"words": every, "text": f"a {ref('long')}"}}
    yield "bad_child", {"kind": "playbook", "path": f"{ref('spaces')}.yaml", "args": {}}
    for text in world.texts:
        yield f"bad_signal_{text.name}", {"kind": "wait", "signal": f"go {ref(text.name)}"}
    yield "bad_secret", {"kind": "secrets", "provider": "file", "key": ref("backslashes")}
    yield "bad_auth", {"kind": "http", "url": world.echo.url, "auth": ref("long")}
    for text in world.texts:
        yield (
            f"bad_number_{text.name}",
            {"kind": "noop", "result": f"{{% set x = {place(text.name)} %}}{{{{ x + 1 }}}}"},
        )
        yield f"bad_field_{text.name}", {"kind": "noop", "result": f"{{{{ {{}}[{place(text.name)}].x }}}}"}
        yield (
            f"bad_json_{text.name}",
            {"kind": "noop", "result": f"{{% set x = '[' ~ {place(text.name)} %}}{{{{ x | fromjson }}}}"},
        )


def slow(world: World) -> Tasks:
    """Every kind that can take too long."""
    for tasks in (
        slow_http,
        slow_sql,
        slow_transfer,
        slow_duckdb,
        slow_processes,
        slow_stores,
        slow_nats,
        slow_quantum,
    ):
        yield from tasks(world)


# -- runs that fail, and runs that are killed --------------------------------------------------------------------------


def failing(world: World, name: str, task: Task) -> dict[str, Any]:
    """A run that fails, and a last step that looks at why."""
    made = playbook(world, f"failing_{name}", {}, final_step="last", output="{{ steps }}")
    last = {"kind": "noop", "result": {"summary": "{{ args.summary }}", "error": "{{ steps.first.error }}"}}
    made["workflow"] = [
        {"step": "first", "tool": [{"bad_task": task}]},
        {"step": "last", "tool": [{"does_last": last}]},
    ]
    return made


def failures(world: World) -> dict[str, Task]:
    """Tasks whose failure nobody takes up."""
    words = {"words": refs(world.texts)}
    unknown = f"{{{{ {{}}[{place('quotes')}].x }}}}"
    rule = {"when": True, "then": {"do": "retry", "delay": "{{ {}[args.words.quotes] }}"}}
    return {
        "python": {"kind": "python", "args": words, "code": RAISE},
        "http": {"kind": "http", "method": "POST", "url": f"{world.echo.url}/text", "form": words["words"]},
        "args": {"kind": "noop", "args": {"n": unknown}, "result": 1},
        "inputs": {"kind": "noop", "result": unknown},
        "rule": {
            "kind": "noop",
            "args": {"words": {"quotes": f"a {ref('quotes')}"}},
            "result": 1,
            "spec": {"policy": {"rules": [rule]}},
        },
    }


LOCK = 20_301
FIFO = "rows.csv"
"""A pipe that DuckDB reads as a file: it waits for who writes."""


def held(world: World, away: str) -> dict[str, Tasks]:
    """Tasks that go on when they may, each a step of its own."""
    every = refs(world.texts)
    words, open_file = {"words": every}, f"{away}/open"
    rows = {"kind": "postgres", "auth": "pg", "query": f"SELECT {ref('quotes')}::text AS a"}
    wait = (
        f'printf "%s" "$W"; echo > {away}/NAME; while [ ! -e {open_file} ]; do sleep 0.05; done; printf "%s" "$W" >&2'
    )
    pause = f"while not os.path.exists('{open_file}'):\n    time.sleep(0.05)\n"
    code = f"{SPEAK}import os\nopen('{away}/python', 'w')\n{pause}"
    tasks: dict[str, Task] = {
        "http": {
            "kind": "http",
            "method": "POST",
            "url": f"{world.echo.url}/hold/http",
            "json": every,
            "auth": "oauth",
        },
        "postgres": {
            "kind": "postgres",
            "auth": "pg_role",
            "query": f"SELECT pg_advisory_xact_lock_shared({LOCK})::text AS lock, {ref('pem')}::text AS x",
        },
        "transfer": {
            "kind": "transfer",
            "source": rows,
            "target": {"kind": "http", "url": f"{world.echo.url}/hold/rows"},
        },
        "duckdb": {
            "kind": "duckdb",
            "paths": [away],
            "query": f"SELECT i, {ref('quotes')} AS x, {ref('pem')} AS y FROM read_csv('{away}/{FIFO}', "
            "auto_detect = false, header = false, columns = {'i': 'INT'}, parallel = false)",
        },
        "snowflake": {
            "kind": "snowflake",
            "auth": "snow",
            "query": f"SELECT {HOLD} {ref('markup')} AS x, {ref('percent')} AS y",
        },
        "python": {"kind": "python", "args": words, "code": f"{code}{RETURN}"},
        "shell": {"kind": "shell", "env": {"W": ref("json")}, "cmds": wait.replace("NAME", "shell")},
        "script": {"kind": "script", "env": {"W": ref("umlauts")}, "ref": wait.replace("NAME", "script")},
        "nats": {"kind": "nats", "auth": "nats", "operation": "request", "subject": "hold", "data": every},
    }
    for kind in ("gcs", "s3", "object"):
        store = {**_store(world, kind), "endpoint": world.gates[kind].endpoint, "key": f"held/{kind}-{ref('spaces')}"}
        tasks[kind] = {**store, "operation": "put", "data": every}
    return {name: _before_and_after(world, name, task) for name, task in tasks.items()}


def held_container(world: World, away: str) -> dict[str, Tasks]:
    """The same for a container, which goes on when its worker is killed."""
    say = f"echo {ref('json')}; env; echo > /away/container"
    task = {
        "kind": "container",
        "image": IMAGE,
        "pull": "never",
        "network": "none",
        "env": {f"WORD_{text.name}": ref(text.name) for text in world.texts},
        "mounts": [f"{away}:/away"],
        "stdin": ref("pem"),
        "command": f"{say}; cat; while [ ! -e /away/open ]; do sleep 0.1; done; echo {ref('quotes')} >&2",
    }
    return {"container": _before_and_after(world, "container", task)}


def _before_and_after(world: World, name: str, task: Task) -> Tasks:
    """A task that is held, between two that are not."""
    yield f"ok_{name}_before", {"kind": "noop", "result": [refs(world.texts)] * 40}
    yield f"does_{name}" if name == "transfer" else f"ok_{name}", task
    yield f"ok_{name}_after", {"kind": "noop", "result": refs(world.texts)}


def handed_on(world: World) -> dict[str, Any]:
    """A secret that one step puts somewhere and another, which does not use it, finds there."""
    table = {"kind": "postgres", "auth": "pg_role"}
    put = {**table, "command": f"CREATE TABLE handed_on AS SELECT {ref('quotes')}::text AS word"}
    result = {**table, "query": "SELECT word FROM handed_on"}
    return playbook(world, "handed_on", {"put": iter([("does_put", put)]), "find": iter([("ok_find", result)])})


def open_words(world: World) -> dict[str, Any]:
    """A playbook that has canaries in its text and no keychain: they are found wherever a secret could be."""
    word = next(text.value for text in world.texts if text.name == "long")
    say = {"kind": "shell", "cmds": [["sh", "-c", f"echo {word}; sleep 1"]]}
    return playbook(world, "open_words", {"say": iter([("does_say", say)])}) | {"keychain": []}


CHILD = {
    "apiVersion": "noetl.io/v2",
    "kind": "Playbook",
    "metadata": {"name": "child", "path": "canaries/child"},
    "workload": {"words": {}, "text": ""},
    "workflow": [{"step": "say", "tool": [{"ok_said": {"kind": "noop", "result": "{{ workload }}"}}]}],
}
WORKBOOK = {"say": {"kind": "python", "args": {"words": "{{ args.words }}"}, "code": f"{SPEAK}{RETURN}"}}
