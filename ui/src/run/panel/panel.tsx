/** The panel below the graph: one tab of the run at a time. */

import type { ComponentType } from "preact";
import { parameter, setQuery } from "../../location.ts";
import { isPhone } from "../../look/phone.ts";
import { later } from "../../parts/lazy.tsx";
import { type Tab, Tabs } from "../../parts/tabs.tsx";
import type { RunModel } from "../model.ts";
import Timeline from "../timeline/timeline.tsx";
import { PanelFind } from "./find.tsx";
import "./panel.css";

export type PanelProps = { model: RunModel };

export const TABS: readonly Tab[] = [
  { name: "timeline", label: "Timeline" },
  { name: "events", label: "Events" },
  { name: "logs", label: "Logs" },
  { name: "data", label: "Data" },
  { name: "items", label: "Items" },
  { name: "related", label: "Related" },
];

/** All but the timeline are loaded when they are first opened. */
const CONTENTS: Record<string, ComponentType<PanelProps>> = {
  timeline: Timeline,
  events: later("events"),
  logs: later("logs"),
  data: later("data"),
  items: later("items"),
  related: later("related"),
};
/** The tabs that show only what the text of the URL (`q`) selects. */
const FINDS: Record<string, string> = {
  events: "Find in events",
  logs: "Filter lines",
  data: "Find a key or value",
  items: "Find an item or error",
};

/** On a phone the view has its own row of tabs. */
export function Panel({ model }: PanelProps) {
  const wanted = parameter("tab");
  const tab = TABS.some(({ name }) => name === wanted) ? wanted : "timeline";
  const Content = CONTENTS[tab]!;
  return (
    <>
      {(FINDS[tab] || !isPhone.value) && (
        <div class="panel-tabs">
          {!isPhone.value && (
            <Tabs label="Parts of the run" tabs={[...TABS]} active={tab} onChoose={(name) => setQuery({ tab: name })} />
          )}
          {FINDS[tab] && <PanelFind key={tab} placeholder={FINDS[tab]} />}
        </div>
      )}
      <Content key={tab} model={model} />
    </>
  );
}
