/** Drafts of playbooks, stored in this browser by path. */

import { readJson, writeText } from "../storage.ts";

export interface Draft {
  text: string;
  base: number; // the version it was begun from, 0 for a new playbook
  saved: number; // milliseconds since 1970
}

const key = (path: string) => `noetl.draft.${path}`;

export function readDraft(path: string): Draft | null {
  const stored = readJson("localStorage", key(path));
  return isDraft(stored) ? stored : null;
}

function isDraft(value: unknown): value is Draft {
  const draft = value as Partial<Draft> | null;
  return typeof draft?.text === "string" && typeof draft.base === "number" && typeof draft.saved === "number";
}

/** False if the browser forbids storage. */
export function saveDraft(path: string, draft: Draft): boolean {
  return writeText("localStorage", key(path), JSON.stringify(draft));
}

export function removeDraft(path: string): void {
  writeText("localStorage", key(path), null);
}
