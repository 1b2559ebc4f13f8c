/** The boxes of the graph of a run: each with the status, the progress and the tokens of its step. */

import type { GraphNode } from "../../api/types.gen.ts";
import { StatusIcon, statusTone, statusWord } from "../../look/status.tsx";
import { type Detail, GraphBox } from "../../parts/graph/box.tsx";
import { ProgressBar } from "../../parts/progress.tsx";
import { count, counted } from "../../text/number.ts";
import type { StepTokens } from "../outline/outline.ts";
import { type BoxState, runRow, waitWords } from "./state.ts";

interface RunBoxProps {
  node: GraphNode;
  state: BoxState | undefined;
  detail: Detail;
  isSelected: boolean;
  isTabStop: boolean;
  onSelect: () => void;
}

export function RunBox({ state, ...box }: RunBoxProps) {
  const { node, detail } = box;
  const status = state?.status ?? "never";
  const kinds = [`tone-${statusTone(status)}`, status === "never" ? "never" : "", node.final ? "final" : ""];
  return (
    <>
      <GraphBox
        {...box}
        kind={kinds.join(" ")}
        label={boxLabel(node, state)}
        note={node.role === "step" && <StatusIcon status={status} />}
      >
        {detail === "full" && (
          <span class="box-run cut" aria-hidden="true">
            {runRow(state)}
          </span>
        )}
        {state?.loop && (
          <span class="box-progress" aria-hidden="true">
            <ProgressBar {...state.loop} running={state.loop.in_flight} />
          </span>
        )}
      </GraphBox>
      {detail === "full" && node.inclusive && (
        <span
          class="box-all"
          aria-hidden="true"
          title="Every arc whose guard holds fires"
          style={{ transform: `translate(${node.x + node.w / 2}px, ${node.y + node.h}px) translate(-50%, -50%)` }}
        >
          all
        </span>
      )}
      {detail === "full" && state && <TokenChips tokens={state.tokens} x={node.x} y={node.y} />}
    </>
  );
}

/** "fetch, running, 7,412 of 12,000, 3 failed" */
function boxLabel(node: GraphNode, state: BoxState | undefined): string {
  const parts = [node.name, statusWord(state?.status ?? "never")];
  if (state?.loop) {
    parts.push(runRow(state));
    if (state.loop.failed) parts.push(`${count(state.loop.failed)} failed`);
  } else if (state?.wait) parts.push(`waits for ${waitWords(state.wait)}`);
  if (state && state.runs > 1) parts.push(counted(state.runs, "step run"));
  for (const [place, text] of tokenTexts(state?.tokens)) if (place !== "ready" || !state?.runs) parts.push(text);
  return parts.join(", ");
}

const TOKEN_WORDS: Record<keyof StepTokens, string> = {
  ready: "ready",
  delayed: "delayed",
  join: "at the join",
  held: "held",
};

function tokenTexts(tokens: StepTokens | undefined): [keyof StepTokens, string][] {
  if (!tokens) return [];
  return (Object.keys(TOKEN_WORDS) as (keyof StepTokens)[])
    .filter((place) => tokens[place])
    .map((place) => [place, `${counted(tokens[place], "token")} ${TOKEN_WORDS[place]}`]);
}

/** Tokens at the step, on the top edge of its box. */
function TokenChips({ tokens, x, y }: { tokens: StepTokens; x: number; y: number }) {
  const texts = tokenTexts(tokens);
  if (!texts.length) return null;
  return (
    <span class="token-chips" style={{ transform: `translate(${x + 10}px, ${y - 10}px)` }} aria-hidden="true">
      {texts.map(([place, text]) => (
        <small key={place} class={`token-${place}`} title={text}>
          <i />
          {count(tokens[place])} {TOKEN_WORDS[place]}
        </small>
      ))}
    </span>
  );
}
