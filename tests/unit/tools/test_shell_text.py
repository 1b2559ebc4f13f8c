"""Templates in commands: whatever the value, the shell sees data. Run by real shells."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.servers.patience import PATIENCE_SECONDS
from tests.table import for_each

from noetl.errors import TemplateError, TemplateFailed, TemplateSyntax, TemplateUndefined
from noetl.expression import Contents, View
from noetl.shell_text import ShellText, check_words, prepare_shell

SHELLS = [name for name in ("dash", "bash", "zsh", "ksh") if shutil.which(name)]
HOSTILE = "a'b\"c $(echo PWN) `echo PWN` ${HOME} ; & | > x * ? [a] ~ \\ \\n é #c\nsecond line $((1+1)) !x {a,b}"
VALUES: dict[str, Any] = {
    "x": HOSTILE,
    "n": -3,
    "words": ["a b", "$HOME", 3, None, True],
    "map": {"k": [1, "v'"]},
    "nothing": None,
    "yes": True,
    "empty": [],
    "s": "a[$(echo PWN >&2)]",
}


def made(command: str, **more: Any) -> ShellText:
    return prepare_shell(command)(VALUES | more)


def output(text: ShellText, shell: str = "dash") -> str:
    env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **text.env}
    process = subprocess.run(
        [shell, "-c", text.text], env=env, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert process.stderr == ""
    return process.stdout


PRINT = "printf '<%s>' "


@pytest.mark.parametrize("shell", SHELLS)
class TestPlaces:
    @pytest.mark.parametrize(
        ("command", "printed"),
        [
            pytest.param(PRINT + "{{ x }}", f"<{HOSTILE}>", id="outside"),
            pytest.param(PRINT + "p{{ x }}s", f"<p{HOSTILE}s>", id="part of a word"),
            pytest.param(PRINT + '"p{{ x }}s"', f"<p{HOSTILE}s>", id="double quotes"),
            pytest.param(PRINT + "'p{{ x }}s'", f"<p{HOSTILE}s>", id="single quotes"),
            pytest.param(PRINT + "\"{{ n }}\"{{ x }}'{{ n }}'", f"<-3{HOSTILE}-3>", id="one word of all"),
            pytest.param("v={{ x }}; " + PRINT + '"$v"', f"<{HOSTILE}>", id="assignment"),
            pytest.param(PRINT + '"$(printf %s {{ x }})"', f"<{HOSTILE}>", id="substitution"),
            pytest.param(PRINT + '"$(printf %s "{{ x }}")"', f"<{HOSTILE}>", id="quotes in substitution in quotes"),
            pytest.param(PRINT + "\"$(printf %s '{{ x }}')\"", f"<{HOSTILE}>", id="single quotes in substitution"),
            pytest.param(PRINT + "\"`printf %s '{{ x }}'`\"", f"<{HOSTILE}>", id="backticks"),
            pytest.param(PRINT + "`printf %s {{ n }}`", "<-3>", id="bare backticks"),
            pytest.param("cat <<E\np{{ x }}s\nE\n", f"p{HOSTILE}s\n", id="here-document"),
            pytest.param("cat <<-E\n\t{{ x }}\n\tE\necho z", f"{HOSTILE}\nz\n", id="here-document with tabs"),
            pytest.param("cat <<A; cat <<B\n{{ x }}\nA\n{{ n }}\nB\necho z", f"{HOSTILE}\n-3\nz\n", id="two documents"),
            pytest.param("cat <<E\n\"{{ x }}\" '{{ n }}'\nE", f"\"{HOSTILE}\" '-3'\n", id="quotes in a document"),
            pytest.param(PRINT + "$(( {{ n }} + 1 )) $((5-{{ n }}))", "<-2><8>", id="arithmetic"),
            pytest.param(PRINT + '${Q:-{{ x }}} "${Q-{{ x }}}"', f"<{HOSTILE}><{HOSTILE}>", id="default of a variable"),
            pytest.param(PRINT + '"${{ n }}" ${{ n }}', "<$-3><$-3>", id="sign of money"),
            pytest.param("case {{ x }} in {{ x }}) echo y;; *) echo n;; esac", "y\n", id="case"),
            pytest.param(
                PRINT + '"$(case a in (b) ;; a) printf %s {{ x }};; esac)" {{ n }}',
                f"<{HOSTILE}><-3>",
                id="case inside",
            ),
            pytest.param("f() { " + PRINT + '"$1"; }; f {{ x }}', f"<{HOSTILE}>", id="function"),
            pytest.param("( " + PRINT + "{{ x }} )", f"<{HOSTILE}>", id="subshell"),
            pytest.param("[ {{ x }} = '{{ x }}' ] && echo same", "same\n", id="test"),
            pytest.param(PRINT + "ok # {{ gone }}\necho z", "<ok>z\n", id="comment"),
            pytest.param("echo {{ x }} >/dev/null 2>&1; " + PRINT + "{{ n }}", "<-3>", id="redirection"),
            pytest.param(PRINT + "a\\\n{{ x }}", f"<a{HOSTILE}>", id="continued line"),
            pytest.param('sh -c \'printf "<%s>" "$1"\' sh {{ x }}', f"<{HOSTILE}>", id="argument of an inner shell"),
        ],
    )
    def test_a_value_is_one_piece_of_data(self, shell: str, command: str, printed: str) -> None:
        text = made(command)
        assert HOSTILE not in text.text
        assert output(text, shell) == printed

    @pytest.mark.parametrize(
        ("command", "printed"),
        [
            pytest.param(PRINT + "{{ words }}", "<a b><$HOME><3><><true>", id="list alone"),
            pytest.param(PRINT + "{{ words }};", "<a b><$HOME><3><><true>", id="list before a semicolon"),
            pytest.param('for i in {{ words }}; do echo "$i"; done', "a b\n$HOME\n3\n\ntrue\n", id="loop"),
            pytest.param(PRINT + "a{{ words }}", '<a["a b", "$HOME", 3, null, true]>', id="list in a word"),
            pytest.param(PRINT + "'{{ words }}'", '<["a b", "$HOME", 3, null, true]>', id="list in quotes"),
            pytest.param(PRINT + "{{ empty }} z", "<z>", id="empty list"),
            pytest.param(PRINT + "{{ map }}", '<{"k": [1, "v\'"]}>', id="map"),
            pytest.param(PRINT + "{{ nothing }} {{ yes }} {{ n }} {{ 1.5 }}", "<><true><-3><1.5>", id="scalars"),
            pytest.param(PRINT + "{{ words | length }} {{ 'a' ~ n }}", "<5><a-3>", id="expressions"),
        ],
    )
    def test_kinds_of_values(self, shell: str, command: str, printed: str) -> None:
        assert output(made(command), shell) == printed


class TestStatements:
    def test_branches_and_loops_choose_the_text_and_never_the_quoting(self) -> None:
        text = made(PRINT + "{% for w in words %}--w {{ w }} {% endfor %}{% if yes %}'{{ x }}'{% else %}no{% endif %}")
        assert output(text) == f"<--w><a b><--w><$HOME><--w><3><--w><><--w><true><{HOSTILE}>"

    def test_what_is_undefined_is_found_where_it_stands(self) -> None:
        with pytest.raises(TemplateUndefined) as caught:
            made("{% if yes %}echo {{ gone.part }}{% endif %}")
        assert (caught.value.offset, caught.value.source[:11]) == (20, "{% if yes %")

    @pytest.mark.parametrize("block", ["{% filter upper %}{{ x }}{% endfilter %}", "{% set y %}{{ x }}{% endset %}"])
    def test_blocks_that_make_text_a_value_are_refused(self, block: str) -> None:
        with pytest.raises(TemplateSyntax, match="cannot be used in a command"):
            prepare_shell(block)

    def test_a_declared_integer_without_a_value_is_safe(self) -> None:
        assert made("{% if yes %}declare -i n=1{% endif %}") == ShellText("declare -i n=1", {})

    def test_raw_text_and_comments_of_templates(self) -> None:
        assert output(made(PRINT + "'{% raw %}{{ x }}{% endraw %}'{# {{ gone }} #}")) == "<{{ x }}>"


@for_each(
    "command",
    [
        "eval {{ x }}",
        'A=1 eval "ls {{ x }}"',
        "if true; then eval {{ x }}; fi",
        "sh -c 'ls {{ x }}'",
        'bash -lc "ls {{ x }}"',
        "sudo bash -o pipefail -c {{ x }}",
        "/usr/bin/env A=1 /bin/sh -c {{ x }}",
        "find . -exec sh -c 'ls {{ x }}' \\;",
        "ls | xargs -I% bash -c 'ls {{ x }}'",
        'sh -c "$(echo {{ x }})"',
        "python3 -c 'print({{ x }})'",
        "python3.12 -Wignore -c '{{ x }}'",
        "perl -e'print {{ x }}'",
        "psql -d shop -c \"select '{{ x }}'\"",
        "psql shop <<E\nselect {{ x }};\nE",
        "bash <<E\nls {{ x }}\nE",
        "bash <<< {{ x }}",
        "echo {{ x }} | sh",
        "cat <<E | bash -s\n{{ x }}\nE",
        "ssh -p 22 host ls {{ x }}",
        "trap {{ x }} EXIT",
        "let a={{ x }}",
        "a[{{ x }}]=1",
        "[[ {{ x }} -eq 1 ]]",
        "[ -v {{ x }} ]",
        "(( {{ x }} > 1 ))",
        "echo $[ {{ x }} ]",
        "echo ${a[{{ x }}]}",
        "echo ${a:{{ x }}}",
        "export {{ x }}",
        "declare -i a={{ x }}",
        'declare -i a=("{{ x }}")',
        "declare -ia a=('1' \"{{ x }}\")",
        "declare -i a; a={{ x }}",
        "typeset -i n\nn+={{ x }}",
        "f() { local -i n; n={{ x }}; }; f",
        "n={{ x }}; declare -i m=n",
        "function f { typeset -i n; n={{ x }}; }; f",
        "builtin declare -xi n; read n <<< {{ x }}",
        "declare -i n; for n in {{ x }}; do :; done",
        "read {{ x }}",
        "printf -v {{ x }} a",
        "cat <<'E'\n{{ x }}\nE",
        "cat <<{{ x }}\nE",
        "echo $'{{ x }}'",
        "echo \\{{ x }}",
        'echo "\\{{ x }}"',
        "echo `echo \\`echo {{ x }}\\``",
        "a=([{{ x }}]=1)",
        "a+=(b ['{{ x }}']=1)",
        'declare -A a=([k]=v ["{{ x }}"]=1)',
        "a=([$(echo {{ x }})]=1)",
        "a[1]=2 b[{{ x }}]=3",
        "a[$(echo {{ x }})]=1",
        "echo a >&{{ x }}",
        "echo a >& 'f{{ x }}'",
        'echo a >&"$(echo {{ x }})"',
        "cat <&{{ x }}",
        "echo a 2>&{{ x }}",
        "echo $((1+$(echo {{ x }})))",
        'echo "$((1+`echo {{ x }}`))"',
        "echo $((${q:-{{ x }}}))",
        "cat <<E\n$((1+$(echo {{ x }})))\nE",
        "(( $(( 1 )) + {{ x }} ))",
        "echo $[ a[0] + {{ x }} ]",
        "echo ${a:${b}{{ x }}}",
        "echo ${a/'}'{{ x }}}",
        "[[ $(echo {{ x }}) -eq 1 ]]",
        "let a=$(echo {{ x }})",
        "declare -a a={{ x }}",
        "readonly -A a={{ x }}",
        "declare -n a={{ x }}",
        'declare "$(echo {{ x }})"',
        "compgen -W {{ x }}",
        "exec {a[{{ x }}]}>file",
        "PS4={{ x }}; set -x; ls",
        "BASH_ENV={{ x }} bash -c ls",
        "export PROMPT_COMMAND={{ x }}",
        "sh -c -- {{ x }}",
        "sh -c -e 'ls {{ x }}'",
        "bash --rcfile f -c {{ x }}",
        "su - postgres -c 'psql {{ x }}'",
        "flock /tmp/lock -c 'ls {{ x }}'",
        "watch -n 1 'ls {{ x }}'",
        "awk '{print {{ x }}}' file",
        "find . -exec awk {{ x }} \\;",
        "sed 's/a/{{ x }}/' file",
        "echo {{ x }} | xargs sh -c",
        "echo {{ x }} | xargs -I% sh -c 'ls %'",
        "echo {{ x }} | xargs -I % -n 1 sh -c 'ls %'",
        "echo {{ x }} | parallel",
        "echo {{ x }} | at now",
    ],
)
def test_a_place_that_cannot_be_safe_is_refused_with_advice(command: str) -> None:
    with pytest.raises(TemplateSyntax) as caught:
        prepare_shell(command)
    assert command[caught.value.offset :].startswith("{{ x }}")
    assert caught.value.hint


@pytest.mark.parametrize(
    "command",
    [
        "grep eval {{ x }}",
        "env | grep export -i {{ x }}",
        "declare -a a; a=(1); a+=({{ x }})",
        "bash script.sh -c {{ x }}",
        "python3 run.py <<E\n{{ x }}\nE",
        "ssh -p 22 {{ x }} uptime",
        "printf %s {{ x }} | ssh host 'cat > file'",
        "export A={{ x }}",
        "[[ {{ x }} == b ]]",
        "[ {{ n }} -gt 1 ]",
        "curl {{ x }} | sh",
        "psql -v name={{ x }} -f file.sql",
        "a=({{ x }} b)",
        "a=(['k']={{ x }})",
        "declare -a a; a=({{ x }})",
        "echo a >{{ x }} 2>&1",
        "echo a &>{{ x }}",
        "echo $((1+$(date +%s)+{{ n }}))",
        "export $(grep -v '^#' {{ x }} | xargs)",
        "grep awk {{ x }}",
        "npm run watch {{ x }}",
        "awk -v n={{ x }} '{print n}' {{ x }}",
        "awk -f prog.awk {{ x }}",
        "sed -n 5p {{ x }}",
        "sed -e 5p {{ x }}",
        "su - postgres -c 'ls \"$0\"' {{ x }}",
        "watch -n {{ n }} ls",
        "parallel echo ::: {{ x }}",
        "echo {{ x }} | xargs ls",
        "echo {{ x }} | xargs sh -c 'ls \"$1\"' sh",
        "env -u A ls {{ x }}",
        "wait {{ n }}",
        "echo ${a:${b}} {{ x }}",
    ],
)
def test_a_place_that_is_safe_is_not_refused(command: str) -> None:
    assert made(command).env


class TestFaults:
    def test_arithmetic_takes_whole_numbers_only(self) -> None:
        assert output(made("echo $(( {{ n }} ))", n=" 010 ")) == "10\n"
        for bad in (VALUES["s"], "1.5", 1.5, True, None):
            with pytest.raises(TemplateFailed, match="whole number"):
                made("echo $(( {{ n }} ))", n=bad)

    @pytest.mark.parametrize(("value", "text"), [(None, "null"), ("", "empty text"), (["", "a"], "empty text")])
    def test_a_command_that_begins_with_nothing_has_no_program(self, value: Any, text: str) -> None:
        for command in ("{{ x }}", " {{ x }} --flag"):
            with pytest.raises(TemplateFailed, match=f"no program: its first word is {text}") as caught:
                made(command, x=value)
            assert "skip the task" in caught.value.hint
        assert output(made("{{ empty }} printf %s a")) == "a"
        assert output(made("v={{ x }}\nprintf a", x=None)) == "a"

    def test_text_that_no_environment_can_hold(self) -> None:
        with pytest.raises(TemplateFailed, match="NUL") as caught:
            made("echo {{ n }} {{ x }}", x="a\0b")
        assert caught.value.offset == 13

    def test_bytes_are_text_or_an_error(self) -> None:
        assert output(made("printf %s {{ x }}", x="é".encode())) == "é"
        with pytest.raises(TemplateFailed, match="binary"):
            made("echo {{ x }}", x=b"\xff")

    def test_an_undefined_value_is_found_where_it_stands(self) -> None:
        with pytest.raises(TemplateUndefined) as caught:
            made("echo {{ n }} {{ gone.part }}")
        assert caught.value.offset == 16

    def test_a_view_is_what_it_stands_for(self) -> None:
        class Stored(View):
            def value(self, contents: Contents) -> Any:
                return ["a", "b"]

        assert output(made("printf '<%s>' {{ x }}", x=Stored())) == "<a><b>"

    def test_text_without_templates_is_left_alone(self) -> None:
        assert prepare_shell("eval $X")({}) == ShellText("eval $X", {})

    def test_nesting_without_end(self) -> None:
        with pytest.raises(TemplateSyntax, match="nested too deeply"):
            prepare_shell("$(" * 20_000 + "{{ x }}")

    @pytest.mark.parametrize(
        "text", ["'{{ x }}", '"{{ x }}', "$( {{ x }}", "${a:-{{ x }}", "cat <<E\n{{ x }}", "`{{ x }}"]
    )
    def test_what_is_never_closed_is_left_to_the_shell(self, text: str) -> None:
        assert made(text).env == {"NOETL_1": HOSTILE}


CODE = "ls {{ x }}"
LISTS_OF_CODE: list[list[Any]] = [
    ["sh", "-c", CODE],
    ["sh", "-c", "--", CODE],
    ["sh", "-c", "-e", CODE],
    ["sh", "-ec", CODE],
    ["bash", "-lc", CODE],
    ["bash", "-c", "-o", "pipefail", CODE],
    ["bash", "--norc", "-c", CODE],
    ["busybox", "sh", "-c", CODE],
    ["/usr/bin/env", "bash", "-c", CODE],
    ["env", "-S", "{{ x }}"],
    ["env", "-vS{{ x }}"],
    ["env", "--split-string={{ x }}"],
    ["script", "-q", "-c", CODE, "/dev/null"],
    ["script", "-qc", CODE],
    ["script", "--command", CODE],
    ["flock", "-c", CODE],
    ["flock", "/tmp/lock", "-c", CODE],
    ["flock", "/tmp/lock", "sh", "-c", CODE],
    ["su", "-c", CODE],
    ["su", "-", "me", "-c", CODE],
    ["su", "me", "--command=ls {{ x }}"],
    ["runuser", "-l", "me", "-c", CODE],
    ["runuser", "-u", "me", "--", "sh", "-c", CODE],
    ["watch", "-n", "1", "ls", "{{ x }}"],
    ["sudo", "-u", "me", "watch", "ls {{ x }}"],
    ["parallel", CODE],
    ["parallel", "-j", "2", "ls {{ x }}", ":::", "a"],
    ["awk", "{{ x }}"],
    ["gawk", "-F", ",", "{ print {{ x }} }", "file"],
    ["gawk", "-e", "{{ x }}"],
    ["timeout", "5", "awk", "{{ x }}"],
    ["sed", "s/a/{{ x }}/", "file"],
    ["sed", "-n", "-e", "{{ x }}"],
    ["xargs", "-I%", "sh", "-c", CODE],
    ["find", ".", "-exec", "sh", "-c", CODE, ";"],
    ["perl", "-e", "{{ x }}"],
    ["perl", "-e", "1", "-e", "{{ x }}"],
    ["perl", "-ne{{ x }}"],
    ["python3", "-c", "{{ x }}"],
    ["python3", "-Wignore", "-c{{ x }}"],
    ["node", "-e", "{{ x }}"],
    ["node", "--eval", "{{ x }}"],
    ["node", "--print={{ x }}"],
    ["ruby", "-e", "{{ x }}"],
    ["php", "-r", "{{ x }}"],
    ["ssh", "host", "ls", "{{ x }}"],
    ["psql", "--command", "{{ x }}"],
]
LISTS_OF_DATA: list[list[Any]] = [
    ["sh", "-c", 'ls "$1"', "sh", "{{ x }}"],
    ["sh", "-c", "--", 'ls "$1"', "sh", "{{ x }}"],
    ["bash", "-o", "pipefail", "-c", 'ls "$1"', "sh", "{{ x }}"],
    ["bash", "run.sh", "-c", "{{ x }}"],
    ["echo", 5, "{{ x }}"],
    ["env", "A={{ x }}", "ls"],
    ["env", "-u", "A", "ls", "{{ x }}"],
    ["script", "-c", "ls", "{{ x }}"],
    ["flock", "{{ x }}", "-c", "ls"],
    ["flock", "/tmp/lock", "ls", "{{ x }}"],
    ["su", "{{ x }}", "-c", "ls"],
    ["runuser", "-u", "{{ x }}", "--", "ls"],
    ["watch", "-n", "{{ x }}", "ls"],
    ["parallel", "-j", "{{ x }}", "ls", ":::", "{{ x }}"],
    ["awk", "-v", "n={{ x }}", "{ print n }", "{{ x }}"],
    ["awk", "-f", "prog.awk", "{{ x }}"],
    ["grep", "awk", "{{ x }}"],
    ["sed", "-n", "5p", "{{ x }}"],
    ["xargs", "-a", "{{ x }}", "ls"],
    ["find", "{{ x }}", "-name", "*.sh", "-exec", "ls", "{}", ";"],
    ["perl", "-e", "print @ARGV", "{{ x }}"],
    ["python3", "-c", "import sys", "-c", "{{ x }}"],
    ["python3", "run.py", "-c", "{{ x }}"],
    ["node", "-e", "1", "{{ x }}"],
    ["ssh", "{{ x }}", "uptime"],
    ["git", "commit", "-m", "{{ x }}"],
]


class TestWords:
    @for_each("words", LISTS_OF_CODE)
    def test_a_list_whose_template_would_be_code_is_refused(self, words: list[Any]) -> None:
        with pytest.raises(TemplateSyntax, match="would read the template's value as code") as caught:
            check_words(words)
        assert caught.value.hint

    @pytest.mark.parametrize("words", LISTS_OF_DATA, ids=lambda words: " ".join(map(str, words)))
    def test_other_lists_are_not(self, words: list[Any]) -> None:
        check_words(words)


@pytest.mark.skipif("bash" not in SHELLS, reason="there is no bash")
@pytest.mark.parametrize(
    ("command", "value"),
    [
        ("a=([{{ x }}]=1)", "$(touch hit)"),
        ("echo a >&{{ x }}", "$(touch hit)"),
        ("echo $((1+$(echo {{ x }})))", "a[$(touch hit)]"),
        ("[[ $(echo {{ x }}) -eq 1 ]]", "a[$(touch hit)]"),
        ("declare -a a={{ x }}", "([$(touch hit)]=1)"),
        ("PS4={{ x }}; set -x; true", "$(touch hit)"),
    ],
)
def test_bash_would_run_what_is_refused(tmp_path: Path, command: str, value: str) -> None:
    """What is refused is no guess: bound as everywhere else, the value runs."""
    bound = command.replace("{{ x }}", '"${NOETL_1}"')
    env = {"PATH": "/usr/bin:/bin", "NOETL_1": value}
    subprocess.run(
        ["bash", "-c", bound], env=env, cwd=tmp_path, capture_output=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert (tmp_path / "hit").exists()
    with pytest.raises(TemplateSyntax):
        prepare_shell(command)


PIECES = st.sampled_from(
    [
        "{{ x }}",
        "'",
        '"',
        "\\",
        "$",
        "`",
        "(",
        ")",
        "$(",
        "$((",
        "${a:-",
        "}",
        "{",
        "<<E\n",
        "\nE\n",
        "#",
        " ",
        "a",
        ";",
        "|",
        ">&",
        "a=([",
        "]=1)",
        "[[ ",
        " -eq 1 ]]",
        "declare -a a=",
        "((",
        "))",
        "a[",
        "]",
    ]
)


@settings(max_examples=1000, deadline=None)
@given(st.lists(PIECES, max_size=14).map("".join))
def test_any_text_is_prepared_or_refused_and_never_holds_a_value(source: str) -> None:
    try:
        text = prepare_shell(source)({"x": "7V7"})
    except TemplateError:
        return
    assert "7V7" not in text.text


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, max_size=10).map("".join), st.data())
def test_no_text_runs_a_value(tmp_path_factory: pytest.TempPathFactory, source: str, data: st.DataObject) -> None:
    """Whatever the command does, the commands inside the value are never run."""
    folder = tmp_path_factory.getbasetemp() / "canary"
    folder.mkdir(exist_ok=True)
    hit = f"touch {folder}/hit"
    value = data.draw(
        st.sampled_from([f"x$({hit})`{hit}`;{hit};'\";|&\n", f"a[$({hit})]", f"([$({hit})]=1)", f"$({hit})"])
    )
    try:
        text = prepare_shell(source)({"x": value})
    except TemplateError:
        return
    for shell in ("dash", "bash"):
        env = {"PATH": "/usr/bin:/bin", **text.env}
        subprocess.run(
            [shell, "-c", text.text],
            env=env,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    assert not (folder / "hit").exists()


@pytest.mark.parametrize(
    "command",
    ["a=([{{ workload.x }}]=1)", "echo a >&{{ workload.x }}", "echo $((1+$(echo {{ workload.x }})))"]
    + [[str(word).replace(" x ", " workload.x ") for word in words] for words in LISTS_OF_CODE[:4]],
    ids=str,
)
def test_the_validator_refuses_the_same(command: str | list[str]) -> None:
    from json import dumps

    from noetl.dsl.compile import load
    from noetl.tools.registry import KINDS

    text = f"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: refused, path: tests/refused}}
workload: {{x: 1}}
workflow:
  - step: start
    tool: {{kind: shell, cmds: [{dumps(command)}]}}
"""
    assert {problem.code for problem in load("p.yaml", text.encode(), KINDS).problems} == {"NTL514"}
