import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { count } from "../text/number.ts";
import "./tabs.css";

export interface Tab {
  name: string;
  label: string;
  count?: number | null;
}

/** A row of tabs; the panel is the caller's. Arrow keys move, as the role demands. */
export function Tabs({
  label,
  tabs,
  active,
  onChoose,
}: {
  label: string;
  tabs: Tab[];
  active: string;
  onChoose: (name: string) => void;
}) {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const tab = document.getElementById(`${id}-${active}`);
    if (tab) list.current?.scrollTo(tab.offsetLeft - 40, 0); // the tab before it stays visible in part
  }, [active]);
  const choose = (event: KeyboardEvent) => {
    const place = tabs.findIndex((tab) => tab.name === active);
    const next: Record<string, number> = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: tabs.length - 1 };
    const target = next[event.key];
    if (target === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const tab = tabs[(target + tabs.length) % tabs.length];
    if (!tab) return;
    onChoose(tab.name);
    document.getElementById(`${id}-${tab.name}`)?.focus();
  };
  return (
    <div ref={list} class="tabs" role="tablist" aria-label={label} onKeyDown={choose}>
      {tabs.map((tab) => (
        <button
          key={tab.name}
          id={`${id}-${tab.name}`}
          type="button"
          role="tab"
          aria-selected={tab.name === active}
          tabIndex={tab.name === active ? 0 : -1}
          onClick={() => onChoose(tab.name)}
        >
          {tab.label}
          {tab.count != null && <span class="tab-count">{count(tab.count)}</span>}
        </button>
      ))}
    </div>
  );
}
