/** The panel below the graph: one tab of the run at a time. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { parameter, setQuery } from "../location.ts";
import { Loading } from "../parts/states.tsx";
import { type Tab, Tabs } from "../parts/tabs.tsx";
import type { RunModel } from "./model.ts";

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
const LOADERS: Record<string, Loader> = {};
const loaded = new Map<string, ComponentType<PanelProps>>();

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
      <Tabs label="Parts of the run" tabs={[...TABS]} active={tab} onChoose={(name) => setQuery({ tab: name })} />
      {Content ? <Content model={model} /> : <Loading />}
    </>
  );
}
