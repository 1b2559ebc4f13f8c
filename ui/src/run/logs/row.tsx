import { useMemo } from "preact/hooks";
import { Button } from "../../parts/button.tsx";
import { Highlight } from "../../parts/highlight.tsx";
import { Moment } from "../../parts/moment.tsx";
import { ansiSpans, type Span } from "../../text/ansi.ts";
import { counted } from "../../text/number.ts";
import { cut, oneLine } from "../../text/printable.ts";
import type { LogLine } from "./lines.ts";

export const LINE_HEIGHT = 20;
const ROW_CHARACTERS = 2_000; // characters of a line in the list

interface LineProps {
  line: LogLine;
  found: string; // marked in the text
  onLong: (line: LogLine) => void;
}

/** The cells of a line: when, by which task, and the text in its colours. */
export function LineCells({ line, found, onLong }: LineProps) {
  const spans = useMemo(() => ansiSpans(cut(line.text, ROW_CHARACTERS)), [line]);
  const isCut = line.length > ROW_CHARACTERS;
  return (
    <>
      <span class="log-time" role="gridcell" title={`line ${line.number}`}>
        <Moment at={line.timestamp} withMillis />
      </span>
      <span class="log-task cut" role="gridcell" title={line.task}>
        {oneLine(line.task)}
      </span>
      <span class="log-text" role="gridcell">
        {line.stream === "stderr" && <span class="log-stream">err</span>}
        {isCut && (
          <Button kind="quiet" onClick={() => onLong(line)}>
            {`Show all ${counted(line.length, "character")}`}
          </Button>
        )}
        {spans.map((span, place) => (
          <span key={place} class={classesOf(span)}>
            <Highlight text={span.text} found={found} />
          </span>
        ))}
      </span>
    </>
  );
}

function classesOf({ color, background, bold, dim, italic, underline }: Span): string {
  const names = [
    color && `hue-${color}`,
    background && `back-${background}`,
    bold && "log-bold",
    dim && "log-dim",
    italic && "log-italic",
    underline && "log-underline",
  ];
  return names.filter(Boolean).join(" ");
}
