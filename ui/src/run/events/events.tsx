/** The event log of a run: all events, or those that a level, groups of types and a text select. */

import { useKeys } from "../../keys.ts";
import { parameter, setQuery } from "../../location.ts";
import { Button } from "../../parts/button.tsx";
import type { RunModel } from "../model.ts";
import type { PanelProps } from "../panel/panel.tsx";
import { select } from "../selection.ts";
import { AllEvents } from "./all.tsx";
import { GROUPS, groupsOf, LEVELS, type Level, levelOf, toggledGroup } from "./filter.ts";
import { FilteredEvents } from "./filtered.tsx";
import "./events.css";

export default function Events({ model }: PanelProps) {
  const [level, types, q] = [levelOf(parameter("level")), groupsOf(parameter("types")).join(","), parameter("q")];
  useKeys("run", Object.fromEntries(LEVELS.map((name) => [`level-${name}`, () => chooseLevel(name)])), []);
  const isFiltered = level !== "event" || types !== "" || q !== "";
  return (
    <div class="panel-content">
      <div class="panel-bar">
        <fieldset class="segments" aria-label="Level of detail">
          {LEVELS.map((name, place) => (
            <Button
              key={name}
              kind="quiet"
              pressed={name === level}
              label={`${LABELS[name]} (${place + 1})`}
              onClick={() => chooseLevel(name)}
            >
              {LABELS[name]}
            </Button>
          ))}
        </fieldset>
        <fieldset class="chips" aria-label="Types of events">
          {GROUPS.map(({ name, label }) => (
            <Button
              key={name}
              kind="quiet"
              pressed={types.split(",").includes(name)}
              onClick={() => setQuery({ types: toggledGroup(types, name) })}
            >
              {label}
            </Button>
          ))}
        </fieldset>
      </div>
      {isFiltered ? (
        <FilteredEvents key={`${level} ${types} ${q}`} model={model} level={level} types={types} q={q} />
      ) : (
        <AllEvents model={model} />
      )}
    </div>
  );
}

const LABELS: Record<Level, string> = { step: "Steps", task: "Tasks", event: "All events" };

function chooseLevel(level: Level): void {
  setQuery({ level: level === "event" ? null : level });
}

/** A click selects an event and moves the view to it; with Alt it only selects. */
export function openEvent(model: RunModel, seq: number, event: MouseEvent | KeyboardEvent): void {
  if (!event.altKey) model.moveTo(seq);
  select({ event: seq }, { replace: !event.altKey }); // both are one entry of the history
}
