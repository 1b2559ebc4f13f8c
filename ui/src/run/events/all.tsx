import { useSignal } from "@preact/signals";
import { useCallback, useEffect, useMemo, useRef } from "preact/hooks";
import { get } from "../../api/client.ts";
import type { EventPage } from "../../api/types.gen.ts";
import { Button } from "../../parts/button.tsx";
import { List } from "../../parts/list.tsx";
import { ProblemBox } from "../../parts/states.tsx";
import { Windows } from "../../parts/windows.ts";
import { count } from "../../text/number.ts";
import type { RunModel } from "../model.ts";
import { selection } from "../selection.ts";
import { openEvent } from "./events.tsx";
import { EVENT_HEIGHT, EventCells, EventColumns, type EventRow } from "./row.tsx";

/** Every event of the run: rows are known by their number, so the list is as long as the log. */
export function AllEvents({ model }: { model: RunModel }) {
  const windows = useMemo(() => eventWindows(model), [model]);
  useEffect(() => () => windows.stop(), [windows]);
  const [latest, chosen] = [model.latest.value, selection.value.event];
  const target = chosen ?? (model.isPast.value ? model.settled.value : 0);
  const cursor = useSignal(target - 1);
  const atEnd = useSignal(!target);
  useEffect(() => {
    cursor.value = target - 1;
  }, [target]);
  const follow = atEnd.value && !model.isPast.value;
  const known = useRef(latest);
  if (follow) known.current = latest;
  const total = Math.max(known.current, Math.min(target, latest));
  const frame = model.frame.value;
  useEffect(() => {
    for (const row of (frame?.rows ?? []) as EventRow[]) windows.put(row[0] - 1, row);
  }, [frame, windows]);
  const want = useCallback((first: number, last: number) => windows.want(first, last), [windows]);
  useEffect(() => {
    if (follow) windows.want(Math.max(0, total - 40), total);
  }, [follow, total, windows]);
  const problem = windows.problem.value;
  if (problem) return <ProblemBox problem={problem} onRetry={() => windows.refresh()} />;
  return (
    <>
      <List
        label="Events"
        total={total}
        rowHeight={EVENT_HEIGHT}
        active={cursor.value}
        columns={<EventColumns />}
        rowClass={(row) => (row + 1 === model.at.value && model.isPast.value ? "event-row at" : "event-row")}
        onActive={(row) => {
          cursor.value = row;
        }}
        onOpen={(row, event) => openEvent(model, row + 1, event)}
        onWindow={want}
        follow={follow}
        onFollow={(isAtEnd) => {
          atEnd.value = isAtEnd;
        }}
      >
        {(row) => <EventCells seq={row + 1} event={windows.row(row)} />}
      </List>
      {latest > total && (
        <div class="paged-note">
          <span>{count(total)} events</span>
          <Button
            kind="primary"
            onClick={() => {
              atEnd.value = true;
              model.backToLatest();
            }}
          >
            {`${count(latest - total)} new`}
          </Button>
        </div>
      )}
    </>
  );
}

function eventWindows(model: RunModel): Windows<EventRow> {
  return new Windows<EventRow>(async (after, limit, signal) => {
    const query = { after, limit, view: "row" };
    const page = await get<EventPage>(model.path("events"), { query, signal });
    return page.items as unknown as EventRow[];
  });
}
