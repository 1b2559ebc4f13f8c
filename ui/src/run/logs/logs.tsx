/** The output of the tasks of a run. */

import { useSignal } from "@preact/signals";
import { type Actions, useKeys } from "../../keys.ts";
import { parameter, setQuery } from "../../location.ts";
import { Button } from "../../parts/button.tsx";
import { download } from "../../parts/download.ts";
import { Select } from "../../parts/field.tsx";
import { preference } from "../../preferences.ts";
import { count } from "../../text/number.ts";
import type { PanelProps } from "../panel/panel.tsx";
import { selection } from "../selection.ts";
import { type LogFilter, lineRange } from "./lines.ts";
import { LogLines } from "./list.tsx";
import { LogSearch } from "./search.tsx";
import "./logs.css";

const wrap = preference("wrap-log", (text) => text === "true");
const toggleWrap = () => {
  wrap.value = !wrap.value;
};

const STREAMS = [
  { value: "", label: "All output" },
  { value: "stdout", label: "Standard output" },
  { value: "stderr", label: "Standard error" },
];

export default function Logs({ model }: PanelProps) {
  const isSearching = useSignal(false);
  const search = useSignal("");
  const { run, item, task } = selection.value;
  const isOfRun = parameter("scope") === "run";
  const stream = parameter("stream");
  const filter: LogFilter = {
    ...(isOfRun || !run ? { run: "", item: null, task: "" } : { run, item, task }),
    stream: STREAMS.some(({ value }) => value === stream) ? stream : "",
    q: parameter("q"),
  };
  const path = model.path("logs");
  const openSearch = () => {
    isSearching.value = true;
    search.value = parameter("q") || search.value;
    setQuery({ q: null }, { replace: true });
  };
  useKeys("run", { wrap: toggleWrap }, []);
  const searchKey: Actions = isSearching.value ? {} : { "search-log": openSearch }; // the second time the browser's
  useKeys("run", searchKey, [isSearching.value]);
  return (
    <div class="panel-content logs">
      <div class="panel-bar">
        {run && (
          <fieldset class="segments" aria-label="Output of">
            <Button kind="quiet" pressed={!isOfRun} onClick={() => setQuery({ scope: null })}>
              {[run, item === null ? "" : `item ${count(item)}`, task].filter(Boolean).join(", ")}
            </Button>
            <Button kind="quiet" pressed={isOfRun} onClick={() => setQuery({ scope: "run" })}>
              Whole run
            </Button>
          </fieldset>
        )}
        <Select
          label="Stream"
          value={filter.stream}
          options={STREAMS}
          onChange={(name) => setQuery({ stream: name })}
        />
        <Button kind="quiet" icon="search" onClick={openSearch}>
          Search
        </Button>
        <Button kind="quiet" pressed={wrap.value} label="Wrap the lines (Alt Z)" onClick={toggleWrap}>
          Wrap
        </Button>
        <Button
          kind="quiet"
          icon="download"
          onClick={() =>
            void download(path, `${model.id}.log`, { query: { ...filter }, headers: { Accept: "text/plain" } })
          }
        >
          Download
        </Button>
      </div>
      {isSearching.value && (
        <LogSearch
          path={path}
          filter={filter}
          text={search.value}
          from={lineRange(parameter("line"))?.[0] ?? 0}
          onText={(text) => {
            search.value = text;
          }}
          onClose={() => {
            isSearching.value = false;
          }}
        />
      )}
      <LogLines
        key={JSON.stringify(filter)}
        model={model}
        filter={filter}
        isWrapped={wrap.value}
        found={isSearching.value ? search.value.trim() : filter.q}
      />
    </div>
  );
}
