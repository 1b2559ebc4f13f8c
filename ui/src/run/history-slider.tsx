import { count } from "../text/number.ts";
import type { RunModel } from "./model.ts";

export function HistorySlider({ model }: { model: RunModel }) {
  const [at, latest] = [model.at.value, model.latest.value];
  return (
    <div class="history-slider">
      <input
        type="range"
        aria-label="Event"
        min={1}
        max={latest}
        value={at}
        aria-valuetext={`Event ${count(at)} of ${count(latest)}`}
        onInput={(event) => model.moveTo(Number(event.currentTarget.value), { settled: false })}
        onChange={(event) => model.moveTo(Number(event.currentTarget.value))}
      />
    </div>
  );
}
