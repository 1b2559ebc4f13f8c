/** Drafts of playbooks, kept in this browser per path. */

export interface Draft {
  text: string;
  base: number; // the version it was begun from, 0 for a new playbook
  saved: number; // milliseconds since 1970
}

const key = (path: string) => `noetl.draft.${path}`;

export function readDraft(path: string): Draft | null {
  try {
    const stored: unknown = JSON.parse(window.localStorage.getItem(key(path)) ?? "null");
    return isDraft(stored) ? stored : null;
  } catch {
    return null; // storage is forbidden, or holds something else
  }
}

function isDraft(value: unknown): value is Draft {
  const draft = value as Partial<Draft> | null;
  return typeof draft?.text === "string" && typeof draft.base === "number" && typeof draft.saved === "number";
}

/** False if the browser keeps nothing. */
export function saveDraft(path: string, draft: Draft): boolean {
  try {
    window.localStorage.setItem(key(path), JSON.stringify(draft));
    return true;
  } catch {
    return false;
  }
}

export function removeDraft(path: string): void {
  try {
    window.localStorage.removeItem(key(path));
  } catch {
    // Nothing was kept.
  }
}
