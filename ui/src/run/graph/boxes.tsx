/** The boxes of a graph: buttons of a fixed size, each with its step, status, tasks and progress. */

import type { GraphNode } from "../../api/types.gen.ts";
import { StatusIcon, statusTone, statusWord } from "../../look/status.tsx";
import { ProgressBar } from "../../parts/progress.tsx";
import { count, counted } from "../../text/number.ts";
import type { StepTokens } from "../outline/outline.ts";
import { type BoxState, runRow, waitWords } from "./state.ts";
import type { Detail } from "./viewport.ts";

interface BoxProps {
  node: GraphNode;
  state: BoxState | undefined;
  detail: Detail;
  isSelected: boolean;
  isTabStop: boolean;
  onSelect: () => void;
}

export function GraphBox({ node, state, detail, isSelected, isTabStop, onSelect }: BoxProps) {
  const status = state?.status ?? "never";
  const classes = [
    "box",
    `tone-${statusTone(status)}`,
    status === "never" ? "never" : "",
    node.role === "step" ? "" : "unreal",
    node.final ? "final" : "",
    isSelected ? "selected" : "",
  ];
  const place = { transform: `translate(${node.x}px, ${node.y}px)`, width: `${node.w}px`, height: `${node.h}px` };
  return (
    <>
      <button
        type="button"
        class={classes.filter(Boolean).join(" ")}
        style={place}
        data-step={node.name}
        aria-pressed={isSelected}
        tabIndex={isTabStop ? 0 : -1}
        title={node.description || undefined}
        onClick={onSelect}
      >
        <span class="hidden-text">{boxLabel(node, state)}</span>
        {detail !== "shapes" && (
          <span class="box-name" aria-hidden="true">
            <span class="cut">{node.name}</span>
            {node.role === "step" && <StatusIcon status={status} />}
          </span>
        )}
        {detail === "full" && <BoxDetails node={node} state={state} />}
        {state?.loop && (
          <span class="box-progress" aria-hidden="true">
            <ProgressBar {...state.loop} running={state.loop.in_flight} />
          </span>
        )}
      </button>
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

/** Badges, tasks, and the row that a run adds. */
function BoxDetails({ node, state }: { node: GraphNode; state: BoxState | undefined }) {
  return (
    <>
      {node.badges.length > 0 && (
        <span class="box-badges" aria-hidden="true">
          {node.badges.map((badge) => (
            <small key={badge.text} class={`badge-${badge.kind}`} title={badge.title}>
              {badge.text}
            </small>
          ))}
        </span>
      )}
      {node.tasks.length > 0 && (
        <span class="box-tasks" aria-hidden="true">
          {node.tasks.map((task) => (
            <span key={`${task.label} ${task.line}`} class="cut" style={{ paddingInlineStart: `${task.depth * 10}px` }}>
              {task.label} <i>{task.kind}</i>
              {task.note && ` ${task.note}`}
            </span>
          ))}
        </span>
      )}
      <span class="box-run cut" aria-hidden="true">
        {runRow(state)}
      </span>
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
