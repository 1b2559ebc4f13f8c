import { KEYS, type Scope, useKeys } from "../keys.ts";
import { go } from "../location.ts";
import { copyAndTell } from "../parts/copy.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { href } from "../routes.ts";
import { helpOpen, openHelp } from "./help-state.ts";
import { Palette } from "./palette.tsx";
import { openPalette, paletteOpen } from "./palette-state.ts";
import "./help.css";

/** The keys that work in every view, and the two dialogs that they open. */
export function GlobalKeys() {
  useKeys(
    "global",
    {
      palette: openPalette,
      help: openHelp,
      filter: () => document.querySelector<HTMLElement>("[data-filter]")?.focus(),
      "go-runs": () => go(href("runs")),
      "go-playbooks": () => go(href("playbooks")),
      "go-schedules": () => go(href("schedules")),
      "go-workers": () => go(href("workers")),
      "copy-link": () => void copyAndTell(window.location.href, "the link to this view"),
    },
    [],
  );
  return (
    <>
      {helpOpen.value && <Help />}
      {paletteOpen.value && <Palette />}
    </>
  );
}

const SCOPES: [Scope, string][] = [
  ["global", "Everywhere"],
  ["lists", "Lists"],
  ["run", "Run"],
  ["slider", "History"],
  ["graph", "Graph"],
  ["editor", "Editor"],
];

function Help() {
  const close = () => {
    helpOpen.value = false;
  };
  return (
    <Dialog title="Keyboard shortcuts" wide onClose={close}>
      <div class="help-columns">
        {SCOPES.map(([scope, title]) => (
          <section key={scope}>
            <h3>{title}</h3>
            <dl>
              {KEYS.filter(([of]) => of === scope).map(([, keys, action, text]) => (
                <div key={action}>
                  <dt>
                    <kbd>{keys}</kbd>
                  </dt>
                  <dd>{text}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}
