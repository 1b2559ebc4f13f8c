/** The panel below the graph: one tab of the run at a time. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { parameter, setQuery } from "../../location.ts";
import { isPhone } from "../../look/phone.ts";
import { Loading } from "../../parts/states.tsx";
import { type Tab, Tabs } from "../../parts/tabs.tsx";
import type { RunModel } from "../model.ts";
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

type Loader = () => Promise<{ default: ComponentType<PanelProps> }>;

/** A tab is loaded when it is first opened. */
const LOADERS: Record<string, Loader> = {
  timeline: () => import("../timeline/timeline.tsx"),
  events: () => import("../events/events.tsx"),
  logs: () => import("../logs/logs.tsx"),
  data: () => import("../data/data.tsx"),
  items: () => import("../items/items.tsx"),
  related: () => import("../related/related.tsx"),
};
/** The tabs that show only what the text of the URL (`q`) selects. */
const FINDS: Record<string, string> = {
  events: "Find in events",
  logs: "Filter lines",
  data: "Find a key or value",
  items: "Find an item or error",
};
const loaded = new Map<string, ComponentType<PanelProps>>();

/** On a phone the view has its own row of tabs. */
export function Panel({ model }: PanelProps) {
  const wanted = parameter("tab");
  const tab = TABS.some(({ name }) => name === wanted) ? wanted : "timeline";
  const [, redraw] = useState(0);
  useEffect(() => {
    if (loaded.has(tab)) return;
    void LOADERS[tab]?.().then((module) => {
      loaded.set(tab, module.default);
      redraw((n) => n + 1);
    });
  }, [tab]);
  const Content = loaded.get(tab);
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
      {Content ? <Content model={model} /> : <Loading />}
    </>
  );
}
