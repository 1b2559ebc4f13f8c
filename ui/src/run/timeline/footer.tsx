import type { Signal } from "@preact/signals";
import { duration } from "../../text/time.ts";
import type { Totals } from "./spans.ts";

/** Totals of all bars. */
export function TimelineFooter({
  totals,
  isPast,
  isZoomed,
  hasGaps,
  expandsGaps,
  onReset,
}: {
  totals: Totals | null; // null: the run has too many step runs to add them up
  isPast: boolean;
  isZoomed: boolean;
  hasGaps: boolean;
  expandsGaps: Signal<boolean>;
  onReset: () => void;
}) {
  return (
    <footer class="timeline-footer">
      <span class="cut">
        {totals
          ? `${isPast ? "Whole run: " : ""}${totalsText(totals)}`
          : "Each step shows its active step runs. Expand one to list them."}
      </span>
      <span class="timeline-options">
        {hasGaps && (
          <button
            type="button"
            class="link"
            title="Expand or collapse idle gaps (G)"
            onClick={() => {
              expandsGaps.value = !expandsGaps.peek();
            }}
          >
            {expandsGaps.value ? "Collapse gaps" : "Expand gaps"}
          </button>
        )}
        {isZoomed && (
          <button type="button" class="link" title="Or double-click" onClick={onReset}>
            Reset zoom
          </button>
        )}
      </span>
    </footer>
  );
}

function totalsText({ worked, waited: { worker, retry, external }, critical }: Totals): string {
  const waits = Object.entries({ worker, retry, external }).filter(([, ms]) => ms > 0);
  const kinds = waits.map(([kind, ms]) => `${kind} ${duration(ms)}`).join(", ");
  const parts = [
    `worked ${duration(worked)}`,
    `waited ${duration(worker + retry + external)}${kinds && ` (${kinds})`}`,
  ];
  if (critical !== null) parts.push(`critical path ${duration(critical)}`);
  return parts.join(", ");
}
