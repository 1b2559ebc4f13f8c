import { useSignal } from "@preact/signals";
import { useResource } from "../../api/resource.ts";
import type { State, StepRun, Write } from "../../api/types.gen.ts";
import { Empty, Loaded } from "../../parts/states.tsx";
import { count } from "../../text/number.ts";
import type { RunModel } from "../model.ts";
import { partPath } from "./following.tsx";
import { EventLink } from "./sentence.tsx";
import { ShortValue } from "./short-value.tsx";

/** The writes of a step run to ctx and iter, with the previous values. */
export function Writes({ model, data }: { model: RunModel; data: StepRun }) {
  const writes = data.writes.filter(({ seq }) => seq <= model.at.value);
  if (!writes.length) return <Empty text={`${data.run} has written nothing to ctx or iter.`} />;
  return (
    <ol class="padded writes">
      {writes.map((write, place) => (
        <li key={`${write.seq} ${write.key} ${place}`}>
          <div class="task-head">
            <EventLink model={model} seq={write.seq} text={count(write.seq)} />
            <code>
              {write.scope}.{write.key}
            </code>
            {write.op !== "=" && <span class="quiet">{write.op}</span>}
          </div>
          <ShortValue name="after" value={write.value} />
          <Before model={model} write={write} earlier={writes.slice(0, place)} />
        </li>
      ))}
    </ol>
  );
}

/** The value before: of ctx from the state one event earlier, of iter from the write before. */
function Before({ model, write, earlier }: { model: RunModel; write: Write; earlier: Write[] }) {
  const isOpen = useSignal(false);
  if (write.scope !== "ctx") {
    const last = earlier.findLast(({ scope, key }) => scope === write.scope && key === write.key);
    return <ShortValue name="before" value={last?.value ?? null} />;
  }
  if (isOpen.value) return <LoadedBefore model={model} write={write} />;
  return (
    <button
      type="button"
      class="link before"
      onClick={() => {
        isOpen.value = true;
      }}
    >
      show the value before
    </button>
  );
}

function LoadedBefore({ model, write }: { model: RunModel; write: Write }) {
  const state = useResource<State>(partPath(model, "state", { at: Math.max(1, write.seq - 1), parts: "ctx" }));
  const [top, ...rest] = write.key.split(".");
  return (
    <Loaded of={state} rows={1}>
      {({ ctx }) => <ShortValue name="before" value={valueAt(ctx?.[top ?? ""], rest)} />}
    </Loaded>
  );
}

function valueAt(value: unknown, path: string[]): unknown {
  return path.reduce<unknown>(
    (inner, key) => (inner && typeof inner === "object" ? (inner as Record<string, unknown>)[key] : undefined),
    value,
  );
}
