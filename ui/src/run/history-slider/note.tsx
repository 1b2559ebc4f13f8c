/** The line below the history slider: which event is shown, and the way back to the latest one. */

import { withTimes } from "../../parts/moment.tsx";
import { count } from "../../text/number.ts";
import { duration } from "../../text/time.ts";
import type { RunModel } from "../model.ts";
import { elapsedAt } from "../outline/time.ts";

export function SliderNote({ model }: { model: RunModel }) {
  const problem = model.stateProblem.value;
  const here = model.position.pointer.value ?? model.at.value;
  if (problem)
    return (
      <span class="history-note" role="alert">
        The state of event {count(model.settled.value)} was not loaded: {problem.message}{" "}
        <button type="button" class="link" onClick={model.loadStateAgain}>
          Retry
        </button>
      </span>
    );
  if (!model.isPast.value)
    return (
      <span class="history-note cut">
        {model.hasEnded.value ? "Last event" : "Latest event"} <RowText model={model} here={here} />
      </span>
    );
  return (
    <span class="history-note">
      <span class="history-past">
        Viewing event {count(here)}.{" "}
        <button type="button" class="link" onClick={() => model.backToLatest()}>
          Back to latest<span class="wide-only"> (Esc)</span>
        </button>
      </span>
      <RowText model={model} here={here} />
    </span>
  );
}

function RowText({ model, here }: { model: RunModel; here: number }) {
  const row = model.row.value;
  return (
    <span class="cut secondary">
      +{duration(elapsedAt(model.outline.value!, here))}
      {row?.[0] === here && (
        <>
          {" "}
          <code>{row[2]}</code> {row[3]} {withTimes(row[5])}
        </>
      )}
    </span>
  );
}
