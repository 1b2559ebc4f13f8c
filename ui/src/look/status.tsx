/** The icon, word and colour of each status: shape and word first, colour third. */

import type { ComponentChildren } from "preact";
import "./status.css";

type Tone = "succeeded" | "failed" | "running" | "waiting" | "held" | "quiet";

const disc = <circle cx="8" cy="8" r="7" fill="currentColor" />;
const tick = <path d="M4.8 8.3l2.2 2.2 4.2-4.6" class="cut-out" />;
const octagon = <path d="M5.1 1h5.8L15 5.1v5.8L10.9 15H5.1L1 10.9V5.1z" fill="currentColor" />;
const cross = <path d="M5.5 5.5l5 5m0-5l-5 5" class="cut-out" />;
const dashedRing = <circle cx="8" cy="8" r="6" class="stroke" stroke-dasharray="2.6 2.1" />;

const ICONS: Record<string, ComponentChildren> = {
  succeeded: [disc, tick],
  failed: [octagon, cross],
  running: (
    <g class="spin">
      <path d="M8 2a6 6 0 1 1-5.2 3" class="stroke" />
      <circle cx="8" cy="8" r="2" fill="currentColor" />
    </g>
  ),
  waiting: (
    <path
      d="M3.5 1.5h9m-9 13h9M4.5 1.5c0 4 3.5 4.5 3.5 6.5S4.5 10.5 4.5 14.5m7-13c0 4-3.5 4.5-3.5 6.5s3.5 2.5 3.5 6.5"
      class="stroke"
    />
  ),
  held: [
    <rect x="3" y="7" width="10" height="7.5" rx="1.5" fill="currentColor" />,
    <path d="M5 7V5a3 3 0 0 1 6 0v2" class="stroke" />,
  ],
  pending: dashedRing,
  paused: [
    <rect x="3.5" y="2.5" width="3" height="11" rx="1" fill="currentColor" />,
    <rect x="9.5" y="2.5" width="3" height="11" rx="1" fill="currentColor" />,
  ],
  cancelled: [<circle cx="8" cy="8" r="6" class="stroke" />, <path d="M4 12L12 4" class="stroke" />],
  skipped: <path d="M2.5 4l4.5 4-4.5 4m6-8L13 8l-4.5 4" class="stroke" />,
  never: <circle cx="8" cy="8" r="2" fill="currentColor" />,
};

const LOOK: Record<string, readonly [icon: string, tone: Tone, word?: string]> = {
  pending: ["pending", "quiet"],
  scheduled: ["pending", "quiet"],
  remaining: ["pending", "quiet"],
  running: ["running", "running"],
  waiting: ["waiting", "waiting"],
  held: ["held", "held", "held by admission"],
  paused: ["paused", "quiet"],
  cancelling: ["cancelled", "quiet"],
  cancelled: ["cancelled", "quiet"],
  skipped: ["skipped", "quiet"],
  succeeded: ["succeeded", "succeeded"],
  ok: ["succeeded", "succeeded"],
  failed: ["failed", "failed"],
  never: ["never", "quiet", "has not run"],
};

function look(status: string) {
  return LOOK[status] ?? LOOK.pending!;
}

export function statusWord(status: string): string {
  return look(status)[2] ?? status;
}

export function statusTone(status: string): Tone {
  return look(status)[1];
}

/** The icon alone; it is hidden from screen readers, so the word must be beside it or in a label. */
export function StatusIcon({ status }: { status: string }) {
  const [icon, tone] = look(status);
  return (
    <svg class={`status-icon tone-${tone}`} width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
      {ICONS[icon]}
    </svg>
  );
}

export function Status({ status, soft = false }: { status: string; soft?: boolean }) {
  return (
    <span class={`status tone-${statusTone(status)}${soft ? " soft" : ""}`}>
      <StatusIcon status={status} />
      {statusWord(status)}
    </span>
  );
}
