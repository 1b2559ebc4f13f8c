import type { Durations, ErrorGroup, ItemsSummary } from "../../api/types.gen.ts";
import { setQuery } from "../../location.ts";
import { count, counted } from "../../text/number.ts";
import { cut, oneLine } from "../../text/printable.ts";
import { duration } from "../../text/time.ts";
import { select } from "../selection.ts";

/** How the items of a loop failed, and how long they took. */
export function ItemsFigures({ figures, run }: { figures: ItemsSummary; run: string }) {
  const { errors, durations, slowest } = figures;
  const hasDurations = durations.p50 !== null;
  if (!errors.length && !hasDurations) return null;
  return (
    <div class="items-figures">
      {errors.length > 0 && (
        <section>
          <h2>Failures</h2>
          <ul>
            {errors.map((group) => (
              <li key={`${group.kind} ${group.message}`}>
                <Failures group={group} run={run} />
              </li>
            ))}
          </ul>
        </section>
      )}
      {hasDurations && (
        <section>
          <h2>Durations</h2>
          <Histogram durations={durations} />
          <p class="items-quantiles">
            <span>median {duration(durations.p50)}</span>
            <span>p95 {duration(durations.p95)}</span>
            <span>maximum {duration(durations.max)}</span>
          </p>
          {slowest.length > 0 && (
            <p class="items-slowest">
              Slowest:{" "}
              {slowest.slice(0, 5).map(({ index, duration_ms }) => (
                <ItemLink key={index} run={run} index={index} title={duration(duration_ms)} />
              ))}
            </p>
          )}
        </section>
      )}
    </div>
  );
}

function Failures({ group, run }: { group: ErrorGroup; run: string }) {
  const { kind, message, count: failures, first, last } = group;
  return (
    <>
      <button
        type="button"
        class="items-group"
        title={message}
        onClick={() => setQuery({ status: "failed", q: cut(`${kind}: ${message}`, 100) })}
      >
        <strong class="tone-failed">{count(failures)}</strong>
        <span>
          {kind}: {oneLine(cut(message, 300))}
        </span>
      </button>
      <small>
        {first === last ? (
          <>
            item <ItemLink run={run} index={first} />
          </>
        ) : (
          <>
            items <ItemLink run={run} index={first} /> to <ItemLink run={run} index={last} />
          </>
        )}
      </small>
    </>
  );
}

function ItemLink({ run, index, title }: { run: string; index: number; title?: string }) {
  return (
    <button type="button" class="link" title={title} onClick={() => select({ run, item: index })}>
      {count(index)}
    </button>
  );
}

/** One bar for each span of time; longer spans are to the right. */
function Histogram({ durations }: { durations: Durations }) {
  const { bins } = durations;
  const first = bins.findIndex((bin) => bin.count > 0);
  const last = bins.findLastIndex((bin) => bin.count > 0);
  const shown = bins.slice(Math.max(0, first - 1), last + 2);
  const most = Math.max(1, ...shown.map((bin) => bin.count));
  return (
    <div class="items-histogram" role="img" aria-label={histogramText(durations)}>
      {shown.map((bin) => (
        <span
          key={bin.up_to_ms}
          title={`${counted(bin.count, "item")} up to ${bin.up_to_ms === null ? "any time" : duration(bin.up_to_ms)}`}
          style={{ height: `${bin.count ? Math.max(2, (bin.count / most) * 40) : 0}px` }}
        />
      ))}
    </div>
  );
}

function histogramText({ p50, p95, max }: Durations): string {
  return `Durations: median ${duration(p50)}, p95 ${duration(p95)}, maximum ${duration(max)}`;
}
