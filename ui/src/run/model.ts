/** One run as the page holds it: its details, its outline kept up to date by frames, and its exact state at one event. */

import { batch, computed, effect, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { get, Problem } from "../api/client.ts";
import { LiveStream } from "../api/live.ts";
import type { Execution, Frame, Outline, State } from "../api/types.gen.ts";
import { parameter, setQuery } from "../location.ts";
import { mergeOutline } from "./outline-merge.ts";
import { whole } from "./selection.ts";

const ENDED = new Set(["succeeded", "failed", "cancelled"]);
const SETTLED_MS = 150; // after the last movement of the slider, before the exact state is loaded
const DETAILS_MS = 1000; // between two loads of the details of a run in progress
const STATES = 50;

export class RunModel {
  readonly id: string;
  readonly details: Signal<Execution | undefined> = signal(undefined);
  readonly outline: Signal<Outline | undefined> = signal(undefined);
  /** The exact state at `at`; undefined while it is loaded, so views fall back on the outline. */
  readonly state: Signal<State | undefined> = signal(undefined);
  readonly problem: Signal<Problem | undefined> = signal(undefined);
  /** The latest frame: lists of events and logs follow it. */
  readonly frame: Signal<Frame | undefined> = signal(undefined);
  readonly latest = computed(() => this.outline.value?.seq ?? 0);
  /** The event that every part of the view shows. */
  readonly at = computed(() => Math.min(whole(parameter("at")) ?? this.latest.value, this.latest.value));
  readonly isPast = computed(() => whole(parameter("at")) !== null && this.at.value < this.latest.value);
  readonly hasEnded = computed(() => ENDED.has(this.outline.value?.status ?? ""));
  #states = new Map<number, State>();
  #stream: LiveStream | undefined;
  #disposers: (() => void)[] = [];
  #stateTimer = 0;
  #detailsTimer = 0;
  #stopped = false;

  constructor(id: string) {
    this.id = id;
  }

  /** The path of a part of this run in the API. */
  path(part: string): string {
    return `/executions/${encodeURIComponent(this.id)}/${part}`;
  }

  async start(): Promise<void> {
    await this.reload();
    if (this.#stopped || !this.outline.value) return;
    this.#disposers.push(effect(() => this.#planState(this.at.value)));
    this.#follow();
  }

  stop(): void {
    this.#stopped = true;
    this.#stream?.stop();
    for (const dispose of this.#disposers) dispose();
    window.clearTimeout(this.#stateTimer);
    window.clearTimeout(this.#detailsTimer);
  }

  /** Loads details and outline; also after an action, and when frames say that they left something out. */
  reload = async (): Promise<void> => {
    try {
      const [details, outline] = await Promise.all([
        get<Execution>(`/executions/${encodeURIComponent(this.id)}`),
        get<Outline>(this.path("outline")),
      ]);
      batch(() => {
        this.details.value = details;
        this.outline.value = outline;
        this.problem.value = undefined;
      });
    } catch (error) {
      this.problem.value =
        error instanceof Problem ? error : new Problem({ title: "The page failed.", detail: String(error) });
    }
  };

  /** Moves the view to an event; the latest one is no parameter, so that the view goes on following. */
  moveTo(seq: number, { settled = true } = {}): void {
    const at = Math.max(1, Math.min(seq, this.latest.value));
    setQuery({ at: at >= this.latest.value ? null : at }, { replace: !settled });
  }

  backToLatest(): void {
    setQuery({ at: null });
  }

  #follow(): void {
    if (this.hasEnded.value) return;
    this.#stream = new LiveStream(this.id, this.latest.value, {
      onFrame: (frame) => this.#apply(frame),
      onEnd: () => void this.reload(),
      onRetry: () => {},
    });
  }

  #apply(frame: Frame): void {
    const outline = this.outline.value;
    if (!outline || frame.seq < outline.seq) return;
    batch(() => {
      this.frame.value = frame;
      if (frame.reload) void this.reload();
      else this.outline.value = mergeOutline(outline, frame.outline, frame.timestamp);
    });
    this.#planDetails();
  }

  #planDetails(): void {
    if (this.#detailsTimer) return;
    this.#detailsTimer = window.setTimeout(async () => {
      this.#detailsTimer = 0;
      const details = await get<Execution>(`/executions/${encodeURIComponent(this.id)}`).catch(() => undefined);
      if (details && !this.#stopped) this.details.value = details;
    }, DETAILS_MS);
  }

  /** The state follows the event of the view; while it moves, nothing is loaded. */
  #planState(at: number): void {
    window.clearTimeout(this.#stateTimer);
    const known = this.#states.get(at);
    if (known) {
      this.state.value = known;
      return;
    }
    this.#stateTimer = window.setTimeout(() => void this.#loadState(at), this.state.peek() ? SETTLED_MS : 0);
  }

  async #loadState(at: number): Promise<void> {
    try {
      const state = await get<State>(this.path("state"), { query: { at } });
      this.#keepState(at, state);
      if (this.at.peek() === at) this.state.value = state;
    } catch (error) {
      if (error instanceof Problem && error.status) this.problem.value = error;
    }
  }

  #keepState(at: number, state: State): void {
    this.#states.set(at, state);
    if (this.#states.size > STATES) {
      const oldest = this.#states.keys().next();
      if (!oldest.done) this.#states.delete(oldest.value);
    }
  }
}

export type ReadRun = ReadonlySignal<RunModel>;
