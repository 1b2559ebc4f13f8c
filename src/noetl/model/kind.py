"""A tool kind as the front end and the registry see it: its name, its inputs, and the packages it needs."""

from __future__ import annotations

import msgspec


def doc(text: str) -> msgspec.Meta:
    """The description of an input: `path: Annotated[str, doc("File to read")]`."""
    return msgspec.Meta(description=text)


class OperationInputs(msgspec.Struct, frozen=True):
    """The inputs that one value of the input `operation` takes; those that no operation takes are for all of them."""

    takes: frozenset[str]
    needs: tuple[tuple[str, ...], ...] = ()  # groups, of each of which it needs exactly one

    @classmethod
    def of(cls, *optional: str, needs: tuple[str | tuple[str, ...], ...] = ()) -> OperationInputs:
        """`needs` has names of inputs, and groups of names."""
        groups = tuple((group,) if isinstance(group, str) else group for group in needs)
        return cls(frozenset(optional).union(*groups), groups)


class Kind(msgspec.Struct, frozen=True):
    """One tool kind. `inputs` is the model of the task's keys: field names are the keys an author may write, types are
    what the tool gets after rendering, `doc(...)` describes each. Keys that every task has are not among them."""

    name: str
    summary: str
    inputs: type[msgspec.Struct]
    timeout: float | None = None  # seconds a call may take when no `spec.timeout` is given; None: no limit
    extra: str | None = None
    sql: tuple[str, ...] = ()  # inputs with SQL, where a template is one bound value; `ident` and `raw_sql` exist
    shell: tuple[str, ...] = ()  # inputs with shell commands, where a template is a word or a part of one, not syntax
    verbatim: tuple[str, ...] = ()
    outcome: str | None = None  # name of the kind's own field on the outcome (`http`, `pg`, `py`)
    result: str = "value"  # what classic templates call `result`: the `value`, its `data` (a body), or its `rows`
    one_of: tuple[tuple[str, ...], ...] = ()
    operations: dict[str, OperationInputs] = {}  # by the values of the input `operation`, if there is one
    exclusive: tuple[tuple[str, str], ...] = ()  # pairs of inputs of which a call takes one at most
    credentials: tuple[str, ...] = ()  # kinds of keychain entries that `auth` can name, the usual one first; none: any
    takes_args: bool = False  # whether the tool is handed the args themselves, not only templates over them

    @property
    def programs(self) -> tuple[str, ...]:
        """Inputs with program text, in which errors have a line."""
        return (*self.verbatim, *self.sql)
