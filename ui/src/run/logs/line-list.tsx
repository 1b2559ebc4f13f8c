import { setQuery } from "../../location.ts";
import { Button } from "../../parts/button.tsx";
import { Empty } from "../../parts/states.tsx";
import type { RunModel } from "../model.ts";
import type { LogFilter, LogLine } from "./lines.ts";

/** The props of a list of lines, of all lines or of those that match a filter. */
export interface LineListProps {
  model: RunModel;
  filter: LogFilter;
  found: string;
  rowClass: (line: LogLine | undefined) => string;
  isChosen: () => boolean; // whether several lines are selected
  onLong: (line: LogLine) => void;
}

export function isSelective({ run, stream, q }: LogFilter): boolean {
  return Boolean(run || stream || q);
}

export function NoLines({ filter }: { filter: LogFilter }) {
  if (!isSelective(filter)) return <Empty text="No task has written any output." />;
  return (
    <Empty text="No line matches.">
      <Button onClick={() => setQuery({ q: null, stream: null, scope: "run" })}>Show all output</Button>
    </Empty>
  );
}
