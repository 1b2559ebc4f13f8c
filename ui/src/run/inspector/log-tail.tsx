import type { LogPage } from "../../api/types.gen.ts";
import { setQuery } from "../../location.ts";
import { Button } from "../../parts/button.tsx";
import { Empty, Loaded } from "../../parts/states.tsx";
import { printable } from "../../text/printable.ts";
import type { RunModel } from "../model.ts";
import { partPath, useLatest } from "./following.tsx";

const LINES = 50;
const MAX_LINE = 2 ** 31 - 1; // the largest number of a line

/** The last lines of a step run; the tab below has all of them. */
export function LogTail({ model, run, item }: { model: RunModel; run: string; item: number | null }) {
  const logs = useLatest<LogPage>(model, partPath(model, "logs", { run, item, before: MAX_LINE, limit: LINES }));
  const open = () => setQuery({ tab: "logs", run, item });
  return (
    <Loaded of={logs} rows={4}>
      {({ items }) =>
        items.length ? (
          <div class="padded">
            <pre class="log-tail" tabIndex={0}>
              {items.map(({ number, stream, line }) => (
                <span key={number} class={stream === "stderr" ? "stderr" : undefined}>
                  {printable(line)}
                  {"\n"}
                </span>
              ))}
            </pre>
            <Button onClick={open}>Open in Logs</Button>
          </div>
        ) : (
          <Empty text={`${run} has written no output.`} />
        )
      }
    </Loaded>
  );
}
