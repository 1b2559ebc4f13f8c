import { useResource } from "../../api/resource.ts";
import type { State } from "../../api/types.gen.ts";
import { parameter, setQuery } from "../../location.ts";
import { Select } from "../../parts/field.tsx";
import { expression } from "../../parts/json-rows.ts";
import { preview } from "../../parts/json-value.ts";
import { Loaded } from "../../parts/states.tsx";
import { type LeafPair, leafPairs, MAX_PAIRS } from "../../text/diff.ts";
import { count } from "../../text/number.ts";
import type { RunModel } from "../model.ts";
import { selection } from "../selection.ts";
import { comparisons, startOfRun } from "./roots.ts";

/** ctx beside what it was at another event. */
export function CompareCtx({ model, state }: { model: RunModel; state: State }) {
  const chosen = parameter("with");
  const { run } = selection.value;
  const outline = model.outline.value;
  const known = comparisons(model.settled.value, run, outline ? startOfRun(outline, run) : 0, chosen);
  const other = known.find(({ name }) => name === chosen);
  const past = useResource<State>(other ? model.path(`state?at=${other.at}&parts=ctx`) : null);
  const options = [
    { value: "", label: "Do not compare ctx" },
    ...known.map(({ name, label }) => ({ value: name, label: `Compare ctx with ${label}` })),
    { value: "event", label: "Compare ctx with an event..." },
  ];
  return (
    <>
      <Select
        label="Compare ctx"
        value={other ? chosen : chosen === "event" ? "event" : ""}
        options={options}
        onChange={(name) => setQuery({ with: name })}
      />
      {(chosen === "event" || /^\d+$/.test(chosen)) && <EventField most={model.latest.value} chosen={chosen} />}
      {other && (
        <div class="data-changes">
          <Loaded of={past} rows={2}>
            {(before) => <Changes changes={leafPairs(before.ctx ?? {}, state.ctx ?? {}, true)} label={other.label} />}
          </Loaded>
        </div>
      )}
    </>
  );
}

function EventField({ most, chosen }: { most: number; chosen: string }) {
  return (
    <input
      class="input data-event"
      type="number"
      min={1}
      max={most}
      aria-label="Event to compare ctx with"
      value={chosen === "event" ? "" : chosen}
      onChange={(event) => setQuery({ with: event.currentTarget.value || "event" })}
    />
  );
}

function Changes({ changes, label }: { changes: LeafPair[]; label: string }) {
  if (!changes.length) return <p class="secondary">ctx is the same as at {label}.</p>;
  return (
    <table aria-label={`Changes of ctx since ${label}`}>
      <tbody>
        {changes.map(({ path, kind, before, after }) => {
          const name = path.reduce<string>(expression, "ctx");
          return (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td class={`data-${kind}`}>{kind}</td>
              <td>
                {kind !== "added" && <del>{preview(before)}</del>} {kind !== "removed" && <ins>{preview(after)}</ins>}
              </td>
            </tr>
          );
        })}
      </tbody>
      {changes.length === MAX_PAIRS && <caption>The first {count(MAX_PAIRS)} changes are shown.</caption>}
    </table>
  );
}
