import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { get } from "../../api/client.ts";
import type { EventPage } from "../../api/types.gen.ts";
import { setQuery } from "../../location.ts";
import { Button } from "../../parts/button.tsx";
import { type Page, PagedList } from "../../parts/paged.ts";
import { PagedRows } from "../../parts/paged-rows.tsx";
import { Empty } from "../../parts/states.tsx";
import type { RunModel } from "../model.ts";
import { selection } from "../selection.ts";
import { openEvent } from "./events.tsx";
import { type Level, typesOf } from "./filter.ts";
import { EVENT_HEIGHT, EventCells, EventColumns, type EventRow } from "./row.tsx";

interface FilteredProps {
  model: RunModel;
  level: Level;
  types: string; // groups
  q: string;
}

/** The events that filters select. A search begins at the first event, other filters where the view is. */
export function FilteredEvents({ model, level, types, q }: FilteredProps) {
  const list = useMemo(() => eventList(model, level, types, q), []);
  const [latest, chosen] = [model.latest.value, selection.value.event];
  const target = chosen ?? (model.isPast.value ? model.settled.value : null);
  const cursor = useSignal(-1);
  const atEnd = useSignal(target === null && !q);
  useEffect(() => {
    void list.start(q ? 0 : (target ?? latest), latest);
    return () => list.stop();
  }, []);
  const items = list.items.value;
  useEffect(() => {
    if (target === null) return;
    if (list.hasStarted.value && !q && list.isBeyond(target)) void list.start(target, latest);
    cursor.value = items.findLastIndex(([seq]) => seq <= target);
  }, [target, items, list.hasStarted.value]);
  const follow = atEnd.value && !model.isPast.value;
  const hasNew = list.hasStarted.value && list.laterFrom.value === null && latest > list.tail;
  useEffect(() => {
    if (follow && hasNew) void list.readNew();
  }, [follow, hasNew, latest]);
  return (
    <PagedRows
      list={list}
      label="Events"
      word="event"
      rowHeight={EVENT_HEIGHT}
      active={cursor.value}
      columns={<EventColumns />}
      rowClass={([seq]) => (seq === model.at.value && model.isPast.value ? "event-row at" : "event-row")}
      empty={
        <Empty text={`No event matches${q ? ` "${q}"` : ""}.`}>
          <Button onClick={() => setQuery({ level: null, types: null, q: null })}>Clear filters</Button>
        </Empty>
      }
      follow={follow}
      hasNew={hasNew}
      onFollow={(isAtEnd) => {
        atEnd.value = isAtEnd;
      }}
      onActive={(row) => {
        cursor.value = row;
      }}
      onOpen={(row, event) => {
        const [seq] = items[row] ?? [];
        if (seq !== undefined) openEvent(model, seq, event);
      }}
    >
      {(event) => <EventCells seq={event[0]} event={event} />}
    </PagedRows>
  );
}

function eventList(model: RunModel, level: Level, types: string, q: string): PagedList<EventRow> {
  return new PagedList<EventRow>(
    async (place, signal) => {
      const query = { ...place, level, types: typesOf(types), q, view: "row", limit: 200 };
      const page = await get<EventPage>(model.path("events"), { query, signal });
      return page as unknown as Page<EventRow>;
    },
    ([seq]) => seq,
  );
}
