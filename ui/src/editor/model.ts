/** One playbook in the editor: its text, draft, problems, and its registration. */

import { computed, signal } from "@preact/signals";
import { get, Problem, request } from "../api/client.ts";
import type { PlaybookText, Registered } from "../api/types.gen.ts";
import { encodedPath } from "../playbooks/paths.ts";
import { readDraft, removeDraft, saveDraft } from "./drafts.ts";
import { Validation } from "./validation.ts";

const SAVE_MS = 500;

const NEW_PLAYBOOK = `apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: example
  path: examples/example
workload: {}
workflow:
  - step: start
    tool:
      kind: noop
      result: done
`;

export class EditorModel {
  readonly path: string; // "" for a new playbook
  readonly text = signal("");
  readonly registered = signal<PlaybookText | null>(null); // the version that the text was begun from
  readonly base = signal(0);
  readonly saved = signal<number | null>(null); // when the draft was saved
  readonly loaded = signal(false);
  readonly problem = signal<Problem | null>(null);
  readonly validation = new Validation();
  readonly isDraft = computed(() => this.text.value !== this.registered.value?.text);
  #timer = 0; // of the next save; 0: the draft is saved

  constructor(path: string) {
    this.path = path;
  }

  /** Save the draft whenever the page is hidden or left, until `stop`. */
  start(): void {
    window.addEventListener("pagehide", this.#savePending);
    document.addEventListener("visibilitychange", this.#savePending);
  }

  async load(version: number | null): Promise<void> {
    this.problem.value = null;
    try {
      const registered = this.path ? await this.#fetch(version) : null;
      const draft = readDraft(this.path);
      this.registered.value = registered;
      this.base.value = draft?.base ?? registered?.version ?? 0;
      this.saved.value = draft?.saved ?? null;
      this.text.value = draft?.text ?? registered?.text ?? NEW_PLAYBOOK;
      this.loaded.value = true;
      this.validation.check(this.text.value, 0);
    } catch (error) {
      this.problem.value = Problem.of(error);
    }
  }

  async #fetch(version: number | null): Promise<PlaybookText | null> {
    try {
      return await get<PlaybookText>(`/playbooks/${encodedPath(this.path)}`, { query: { version } });
    } catch (error) {
      // Without a version, it is a playbook that is yet to be written.
      if (error instanceof Problem && error.status === 404 && version === null) return null;
      throw error;
    }
  }

  change(text: string): void {
    this.text.value = text;
    this.validation.check(text);
    window.clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => this.save(), SAVE_MS);
  }

  /** True if the browser has stored the draft. */
  save(): boolean {
    this.#cancelSave();
    if (!this.isDraft.value) {
      removeDraft(this.path);
      this.saved.value = null;
      return true;
    }
    const saved = Date.now();
    const done = saveDraft(this.path, { text: this.text.value, base: this.base.value, saved });
    if (done) this.saved.value = saved;
    return done;
  }

  discard(): void {
    this.#cancelSave();
    removeDraft(this.path);
    this.saved.value = null;
    this.base.value = this.registered.value?.version ?? 0;
    this.text.value = this.registered.value?.text ?? NEW_PLAYBOOK;
    this.validation.check(this.text.value, 0);
  }

  /** A version that somebody registered after the text was begun, null if there is none. */
  async newerVersion(): Promise<PlaybookText | null> {
    const latest = this.path ? await this.#fetch(null) : null;
    return latest && latest.version > this.base.value && latest.text !== this.text.value ? latest : null;
  }

  async register(): Promise<Registered> {
    const text = this.text.value;
    const answer = await request<Registered>("POST", "/playbooks", { yaml: text });
    this.#cancelSave();
    removeDraft(this.path);
    this.saved.value = null;
    if (answer.path === this.path) {
      this.registered.value = await this.#fetch(answer.version);
      this.base.value = answer.version;
    }
    return answer;
  }

  stop(): void {
    this.#savePending();
    window.removeEventListener("pagehide", this.#savePending);
    document.removeEventListener("visibilitychange", this.#savePending);
    this.validation.stop();
  }

  #savePending = (): void => {
    if (this.#timer) this.save();
  };

  #cancelSave(): void {
    window.clearTimeout(this.#timer);
    this.#timer = 0;
  }
}
