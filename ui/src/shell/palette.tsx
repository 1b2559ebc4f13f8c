/** The command palette (Ctrl K): actions of the view, runs by id or playbook, playbooks, sections. */

import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { get } from "../api/client.ts";
import type { ExecutionPage, PlaybookPage } from "../api/types.gen.ts";
import { go } from "../location.ts";
import { Dialog } from "../parts/dialog.tsx";
import { href, type View } from "../routes.ts";
import { shortId } from "../text/number.ts";
import { offeredActions, type PaletteAction, paletteOpen } from "./palette-state.ts";
import "./palette.css";

const SECTIONS: [View, string][] = [
  ["runs", "Runs"],
  ["playbooks", "Playbooks"],
  ["newPlaybook", "New playbook"],
  ["schedules", "Schedules"],
  ["workers", "Workers"],
  ["hooks", "Hooks"],
  ["credentials", "Credentials"],
  ["access", "Access"],
  ["system", "System"],
];
const ID = /^[0-9a-f-]{20,36}$/i;
const ID_LENGTH = 36;
const SEARCH_MS = 150;

export function Palette() {
  const [text, active, found] = [useSignal(""), useSignal(0), useSignal<PaletteAction[]>([])];
  const close = () => {
    paletteOpen.value = false;
  };
  const field = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => field.current?.focus(), []);
  useLayoutEffect(
    () => document.getElementById(`palette-${active.value}`)?.scrollIntoView({ block: "nearest" }),
    [active.value],
  );
  useEffect(() => {
    const wanted = text.value.trim();
    const search = new AbortController();
    const timer = window.setTimeout(async () => {
      found.value = wanted ? await searchServer(wanted, search.signal).catch(() => []) : [];
    }, SEARCH_MS);
    return () => {
      window.clearTimeout(timer);
      search.abort();
    };
  }, [text.value]);
  const choices = [...matching([...offeredActions(), ...sections()], text.value), ...found.value];
  const choose = (choice: PaletteAction | undefined) => {
    if (!choice || choice.reason) return;
    close();
    choice.run();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (!step) return;
    event.preventDefault();
    active.value = (active.value + step + choices.length) % Math.max(1, choices.length);
  };
  return (
    <Dialog title="Search" onClose={close} onSubmit={() => choose(choices[active.value])}>
      <input
        ref={field}
        class="input"
        type="text"
        role="combobox"
        aria-label="Search actions, runs, playbooks"
        aria-expanded={true}
        aria-controls="palette-choices"
        aria-activedescendant={choices.length ? `palette-${active.value}` : undefined}
        placeholder="Actions, runs by id or playbook, playbooks, sections"
        value={text.value}
        onKeyDown={onKeyDown}
        onPaste={(event) => {
          const id = event.clipboardData?.getData("text").trim() ?? "";
          if (id.length !== ID_LENGTH || !ID.test(id)) return;
          event.preventDefault();
          close();
          go(href("run", { id }));
        }}
        onInput={(event) => {
          text.value = event.currentTarget.value;
          active.value = 0;
        }}
      />
      <ul id="palette-choices" class="palette" role="listbox" aria-label="Search results">
        {choices.map((choice, place) => (
          <li
            key={`${choice.label}-${place}`}
            id={`palette-${place}`}
            role="option"
            tabIndex={-1}
            aria-selected={place === active.value}
            aria-disabled={choice.reason ? true : undefined}
            onClick={() => choose(choice)}
          >
            <span class="cut">{choice.label}</span>
            <small class="cut">{choice.reason ?? choice.hint}</small>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}

function sections(): PaletteAction[] {
  return SECTIONS.map(([view, label]) => ({ label, hint: "section", run: () => go(href(view)) }));
}

function matching(choices: PaletteAction[], text: string): PaletteAction[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return choices.filter(({ label }) => words.every((word) => label.toLowerCase().includes(word)));
}

async function searchServer(text: string, signal: AbortSignal): Promise<PaletteAction[]> {
  const [runs, playbooks] = await Promise.all([
    get<ExecutionPage>("/executions", {
      query: ID.test(text) ? { prefix: text, limit: 8 } : { q: text, limit: 8 },
      signal,
    }),
    get<PlaybookPage>("/playbooks", { query: { q: text, limit: 8 }, signal }),
  ]);
  return [
    ...runs.items.map((run) => ({
      label: `${run.path} ${shortId(run.execution_id)}`,
      hint: `run, ${run.status}`,
      run: () => go(href("run", { id: run.execution_id })),
    })),
    ...playbooks.items.map(({ path }) => ({
      label: path,
      hint: "playbook",
      run: () => go(href("playbook", { path })),
    })),
  ];
}
