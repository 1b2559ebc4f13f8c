"""What happens to a schedule: it is made, changed, looked at, and asked to fire. Each function gives the next revision
of its row. Nothing is started here; `scheduler.py` does that.

A firing goes through three states, each of which is stored before the next begins: it is due (`next`), decided
(`starting`, or in the `queue` behind an open execution), and settled (`recent`). A server that dies in between leaves a
row from which any other goes on.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from noetl.errors import Conflict, NotFound, UsageError
from noetl.server import timing
from noetl.server.models.schedules import ScheduleRequest, ScheduleView
from noetl.server.roles import is_name
from noetl.store.codec import check_value
from noetl.store.ports import Store
from noetl.store.triggers import Fired, Firing, Schedule
from noetl.timestamps import rfc3339

GRACE_SECONDS = 60.0
"""A firing that is later than that was missed; so was one that the next one has overtaken."""
TAKEN_SECONDS = 5.0
"""How long others leave a schedule alone whose firings somebody is starting."""
QUEUE_SECONDS = 1.0
"""How often it is looked whether what a queue waits for has ended."""
TROUBLED_SECONDS = 60.0
MOST_MISSED = 100
"""How many missed firings are made up for at most: the latest ones."""
LONGEST_QUEUE = 100
MOST_RUNNING = 100
KEPT_RECENT = 20

OWN_KEY = "schedule"
"""Where the payload of an execution tells its firing."""


Change = Callable[[Schedule, Collection[str]], Schedule]
"""Gives the next revision of a schedule. The collection has those of its executions that are open."""


def change_in(store: Store, name: str, change: Change) -> Schedule:
    """Change a schedule from what it is at this moment; NotFound if there is none. Blocks."""
    while True:
        found = store.triggers.schedule(name)
        if found is None:
            raise NotFound(f"there is no schedule {name!r}")
        new = change(found, open_of(store, found.running))
        if store.triggers.change_schedule(new):
            return new


def put_in(store: Store, name: str, request: ScheduleRequest, now: float) -> tuple[Schedule, bool]:
    """Change a schedule or make it: what it is now, and whether it is new. Blocks."""
    while store.triggers.schedule(name) is None:
        made_now = made(name, request, now)
        if store.triggers.add_schedule(made_now):
            return made_now, True
    return change_in(store, name, lambda old, _: changed(old, request, now)), False


def open_of(store: Store, executions: Iterable[str]) -> set[str]:
    """Which of the executions are stored and have not ended. Blocks."""
    found = (one for name in executions for one in store.summaries(prefix=name, limit=1))
    return {one.execution_id for one in found if one.ended is None}


# -- what people ask for --------------------------------------------------------------------------------------------


def made(name: str, request: ScheduleRequest, now: float) -> Schedule:
    """A new schedule; UsageError says what is wrong with it."""
    if not is_name(name):
        raise UsageError(f"{name[:100]!r} can't be the name of a schedule: use letters, digits and _ . @ -")
    blank = Schedule(name, secrets.token_hex(8), request.path, created=now, anchor=round(now, 3))
    return replace(_described(blank, request, now), revision=1)


def changed(old: Schedule, request: ScheduleRequest, now: float) -> Schedule:
    """The schedule as it is asked for. If it fires at the same times as before, it goes on where it was."""
    return _described(old, request, now)


def _described(old: Schedule, request: ScheduleRequest, now: float) -> Schedule:
    given = [one for one in (request.cron, request.every, request.at) if one is not None]
    if len(given) != 1:
        raise UsageError("say when by one of: cron, every, at")
    timing.zone_of(request.timezone)
    for value in (request.payload, request.ctx):
        check_value(value)
    new = replace(
        old,
        path=request.path,
        version=request.version,
        payload=request.payload,
        ctx=request.ctx,
        cron=None if request.cron is None else timing.checked_cron(request.cron),
        every=None if request.every is None else timing.checked_every(request.every),
        at=None if request.at is None else timing.checked_at(request.at, request.timezone),
        timezone=request.timezone,
        overlap=request.overlap,
        missed=request.missed,
        paused=old.paused if request.paused is None else request.paused,
        updated=now,
    )
    if _times(new) != _times(old):
        new = replace(new, anchor=round(now, 3))
        new = replace(new, next=timing.next_after(new, now))
        if new.next is None:
            raise UsageError("it would never fire: its time is over, or there is no such day")
    elif old.paused and not new.paused:
        new = replace(new, next=timing.next_after(new, now))
    return _revised(new, now)


def _times(one: Schedule) -> tuple[Any, ...]:
    return one.cron, one.every, one.at, one.timezone


def paused(old: Schedule, now: float) -> Schedule:
    """Nothing of it starts until it is resumed."""
    return _revised(replace(old, paused=True, updated=now), now)


def resumed(old: Schedule, now: float) -> Schedule:
    """It goes on with the next firing; what fell into the pause is not made up for."""
    following = timing.next_after(old, now) if old.paused else old.next
    return _revised(replace(old, paused=False, updated=now, next=following), now)


def asked(old: Schedule, firing: Firing, is_open: Collection[str], now: float) -> Schedule:
    """It fires now because somebody asks for it; Conflict where its policy forbids that."""
    one = _with_running(old, is_open)
    if not one.running or one.overlap == "allow":
        return _revised(_begun(one, firing), now)
    if one.overlap == "skip":
        raise Conflict(f"{one.running[-1]} of schedule {one.name!r} is still open, and its firings do not overlap")
    if len(one.queue) >= LONGEST_QUEUE:
        raise Conflict(f"{len(one.queue)} firings of schedule {one.name!r} wait already")
    return _revised(replace(one, queue=(*one.queue, firing)), now)


# -- what time brings -----------------------------------------------------------------------------------------------


def decided(old: Schedule, is_open: Collection[str], now: float) -> Schedule:
    """What is to be done by now: firings that are due and may start are in `starting`."""
    one = _with_running(old, is_open)
    if not one.paused:
        one = _admitted(_queued(one, now), now)
    return _revised(one, now)


def _with_running(one: Schedule, is_open: Collection[str]) -> Schedule:
    on_their_way = {firing.execution(one.id) for firing in one.starting}
    return replace(one, running=tuple(name for name in one.running if name in is_open or name in on_their_way))


def _queued(one: Schedule, now: float) -> Schedule:
    """The firings that have become due, by the policy for missed ones."""
    if one.next is None or one.next > now:
        return one
    due = timing.latest(one, one.next, now, MOST_MISSED)
    chosen = _made_up_for(one, due, now)
    if left := len(due) - len(chosen):
        kept = set(chosen)
        last = max(moment for moment in due if moment not in kept)
        one = _noted(one, Fired(last, now, "missed", reason="no server was there in time", count=left))
    queue = (*one.queue, *(Firing(moment) for moment in chosen))
    return replace(one, queue=queue, next=timing.next_after(one, now))


def _made_up_for(one: Schedule, due: Sequence[float], now: float) -> Sequence[float]:
    match one.missed:
        case "all":
            return due
        case "once":
            return due[-1:]
        case "skip":
            return due[-1:] if due and now - due[-1] <= GRACE_SECONDS else ()


def _admitted(one: Schedule, now: float) -> Schedule:
    """The queue, as far as it may start. What may neither start nor wait is skipped."""
    while one.queue and (one.overlap != "queue" or not one.running):
        firing, *rest = one.queue
        one = replace(one, queue=tuple(rest))
        if one.running and one.overlap == "skip":
            one = _noted(one, Fired(firing.due, now, "skipped", reason=f"{one.running[-1]} was still open"))
        else:
            one = _begun(one, firing)
    for firing in one.queue[LONGEST_QUEUE:]:
        one = _noted(one, Fired(firing.due, now, "skipped", reason=f"{LONGEST_QUEUE} firings wait already"))
    return replace(one, queue=one.queue[:LONGEST_QUEUE])


def _begun(one: Schedule, firing: Firing) -> Schedule:
    running = (*one.running, firing.execution(one.id))[-MOST_RUNNING:]
    return replace(one, starting=(*one.starting, firing), running=running)


def settled(old: Schedule, firing: Firing, reason: str, now: float) -> Schedule:
    """A firing has started its execution or, for a reason, has not."""
    execution = firing.execution(old.id)
    one = replace(old, starting=tuple(other for other in old.starting if other != firing))
    if reason:
        one = replace(one, running=tuple(name for name in one.running if name != execution))
        return _revised(_noted(one, Fired(firing.due, now, "failed", reason=reason)), now)
    return _revised(_noted(one, Fired(firing.due, now, "started", execution)), now)


def troubled(old: Schedule, reason: str, now: float) -> Schedule:
    """It can't be decided what to do. Looked at again later: what is missing here may be there at another server."""
    noted = _noted(old, Fired(old.next or now, now, "failed", reason=reason))
    return replace(noted, look=now + TROUBLED_SECONDS, revision=old.revision + 1)


def _noted(one: Schedule, fired: Fired) -> Schedule:
    """What became of a firing; the same again only counts."""
    *before, last = one.recent or (None,)
    if last is not None and fired.execution is None and (last.outcome, last.reason) == (fired.outcome, fired.reason):
        return replace(one, recent=(*before, replace(fired, count=last.count + fired.count)))
    return replace(one, recent=(*one.recent, fired)[-KEPT_RECENT:])


def _revised(one: Schedule, now: float) -> Schedule:
    if one.starting:
        look: float | None = now + TAKEN_SECONDS
    elif one.paused:
        look = None
    elif one.queue:
        look = now + QUEUE_SECONDS
    else:
        look = one.next
    return replace(one, look=look, revision=one.revision + 1)


# -- how it is shown ------------------------------------------------------------------------------------------------


def payload_of(one: Schedule, firing: Firing) -> dict[str, Any]:
    """What an execution gets: the payload, and which firing it is, unless the payload has that key itself."""
    return {OWN_KEY: {"name": one.name, "time": rfc3339(firing.due)}} | one.payload


def view(store: Store, one: Schedule) -> ScheduleView:
    """A schedule as the API and the command line show it, with those of its executions that are open. Blocks."""
    return ScheduleView.of(_with_running(one, open_of(store, one.running)))
