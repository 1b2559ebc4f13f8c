/** The history slider: every part of the view shows the run at the event that it points to. */

import { useEffect, useMemo } from "preact/hooks";
import { useKeys } from "../../keys.ts";
import { Button } from "../../parts/button.tsx";
import { toast, toastProblem } from "../../parts/toast.tsx";
import { preference } from "../../preferences.ts";
import { count } from "../../text/number.ts";
import { millis } from "../../text/time.ts";
import type { RunModel } from "../model.ts";
import { timeOf } from "../outline/time.ts";
import { ReconnectBanner } from "../reconnect-banner.tsx";
import { selection } from "../selection.ts";
import { hasDecisions, neighbourDecision } from "./decisions.ts";
import { EventField } from "./field.tsx";
import { SliderNote } from "./note.tsx";
import { Player, RATES, rate } from "./play.ts";
import { neighbourMarker, type Scale } from "./scale.ts";
import { EventTime, Track } from "./track.tsx";
import "./history-slider.css";

const scale = preference<Scale>("slider-scale", (text) => (text === "time" ? "time" : "event"));
const FAR = 100;

export function HistorySlider({ model }: { model: RunModel }) {
  const player = useMemo(() => new Player(model), [model]);
  useEffect(() => player.stop, [player]);
  useKeys("slider", sliderKeys(model, player), [model, player]);
  const here = model.position.pointer.value ?? model.at.value;
  const [latest, row, ms] = [model.latest.value, model.row.value, timeAt(model, here)];
  const go = (seq: number) => {
    player.stop();
    model.nudgeTo(seq);
  };
  const nextRate = RATES[(RATES.indexOf(rate.value) + 1) % RATES.length]!;
  return (
    <section class={model.isPast.value ? "history-slider past" : "history-slider"} aria-label="History">
      <ReconnectBanner model={model} />
      <div class="history-row">
        <span class="history-before">
          <Button kind="quiet" icon="first" label="First event (Home)" onClick={() => go(1)} />
          <Button kind="quiet" icon="left" label="Previous event (Left)" onClick={() => go(here - 1)} />
        </span>
        <span class="history-event">
          <span class="history-word">event </span>
          <EventField here={here} latest={latest} onChoose={(seq) => model.moveTo(seq)} /> of {count(latest)}
        </span>
        <Track
          label="Event"
          outline={model.outline.value!}
          scale={scale.value}
          here={here}
          ms={ms}
          summary={row?.[0] === here ? `${row[2]} ${row[5]}` : ""}
          onMove={(seq) => {
            player.stop();
            model.moveTo(seq, { settled: false });
          }}
          onChoose={(seq) => model.moveTo(seq)}
        />
        <EventTime ms={ms} />
        <span class="history-after">
          <Button kind="quiet" icon="right" label="Next event (Right)" onClick={() => go(here + 1)} />
          <Button kind="quiet" icon="last" label="Latest event (End)" onClick={() => model.backToLatest()} />
          <Button
            kind="quiet"
            icon={player.isPlaying.value ? "pause" : "play"}
            label={player.isPlaying.value ? "Pause (Space)" : "Play (Space)"}
            onClick={player.toggle}
          />
        </span>
      </div>
      <div class="history-row history-notes">
        <SliderNote model={model} />
        <span class="history-options">
          <button
            type="button"
            class="link"
            title="Switch the scale (T)"
            onClick={() => {
              scale.value = scale.peek() === "event" ? "time" : "event";
            }}
          >
            {scale.value === "event" ? "by event" : "by time"}
          </button>
          <button
            type="button"
            class="link"
            title={`Play ${count(nextRate)} events per second`}
            onClick={() => {
              rate.value = nextRate;
            }}
          >
            {rate.value} per s
          </button>
        </span>
      </div>
    </section>
  );
}

/** The time of an event: exact if its state is loaded, otherwise as exact as the outline. */
function timeAt(model: RunModel, seq: number): number {
  const state = model.state.value;
  const exact = state?.seq === seq ? millis(state.timestamp) : null;
  return exact ?? timeOf(model.outline.value!, seq);
}

function sliderKeys(model: RunModel, player: Player) {
  const here = () => model.position.pointer.peek() ?? model.at.peek();
  const go = (seq: number | null) => {
    player.stop();
    if (seq !== null) model.nudgeTo(seq);
  };
  const distance = (event: KeyboardEvent) => (event.shiftKey ? FAR : 1);
  const toMarker = (direction: 1 | -1) => () => {
    const outline = model.outline.peek();
    if (outline) go(neighbourMarker(outline, here(), direction));
  };
  const toDecision = (direction: 1 | -1) => () => void goToDecision(model, go, here(), direction);
  return {
    back: (event: KeyboardEvent) => go(here() - distance(event)),
    forward: (event: KeyboardEvent) => go(here() + distance(event)),
    "previous-marker": toMarker(-1),
    "next-marker": toMarker(1),
    "previous-decision": toDecision(-1),
    "next-decision": toDecision(1),
    play: player.toggle,
    scale: () => {
      scale.value = scale.peek() === "event" ? "time" : "event";
    },
    first: () => go(1),
    latest: () => {
      player.stop();
      model.backToLatest();
    },
  };
}

async function goToDecision(
  model: RunModel,
  go: (seq: number | null) => void,
  seq: number,
  direction: 1 | -1,
): Promise<void> {
  const selected = selection.peek();
  if (!hasDecisions(selected)) {
    toast("Select a step or an arc first: { and } go through the decisions about it.");
    return;
  }
  try {
    const decision = await neighbourDecision(model, selected, seq, direction);
    if (decision === null) toast(`No ${direction > 0 ? "later" : "earlier"} decision about the selection.`);
    else go(decision);
  } catch (error) {
    toastProblem("The decision was not loaded", error);
  }
}
