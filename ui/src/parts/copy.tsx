import { Button } from "./button.tsx";
import { toast } from "./toast.tsx";

/** Puts text on the clipboard; true if the browser allowed it. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

// Without HTTPS browsers have no clipboard API; the older command still works there.
function copyBySelection(text: string): boolean {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "hidden-text";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

export async function copyAndTell(text: string, what: string): Promise<void> {
  const done = await copyText(text);
  toast(done ? `Copied ${what}.` : `The browser does not allow copying ${what}.`, { tone: done ? "good" : "bad" });
}

interface CopyProps {
  text: string | (() => string); // a function for a text that is long or costly to make
  what: string;
  children?: string;
}

/** A small button that copies a text: ids, errors, values, commands. */
export function Copy({ text, what, children }: CopyProps) {
  const copy = () => void copyAndTell(typeof text === "string" ? text : text(), what);
  return (
    <Button kind="quiet" icon="copy" label={`Copy ${what}`} onClick={copy}>
      {children}
    </Button>
  );
}
