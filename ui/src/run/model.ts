/** One run as the page holds it: its details, its outline kept up to date by frames, and its exact state at one event. */

import { batch, computed, effect, type Signal, signal } from "@preact/signals";
import { get, Problem } from "../api/client.ts";
import { LiveStream } from "../api/live.ts";
import { CANCELLED } from "../api/resource.ts";
import type { EventPage, Execution, Frame, Outline, Row, State } from "../api/types.gen.ts";
import { mergeOutline } from "./outline/merge.ts";
import { Position } from "./position.ts";

const ENDED = new Set(["succeeded", "failed", "cancelled"]);
const DETAILS_MS = 1000; // between two loads of the details of a run in progress
const POLL_MS = 10_000; // between two loads of the details of a run without frames
const OUTLINE_MS = 10_000; // between two loads of an outline that frames do not bring up to date
const MAX_ROWS = 5000; // above so many step runs the server counts them instead, and frames leave them out
const STATES = 50;

interface Shown {
  state: State;
  row: Row | undefined;
}

export class RunModel {
  readonly id: string;
  readonly details: Signal<Execution | undefined> = signal(undefined);
  readonly outline: Signal<Outline | undefined> = signal(undefined);
  /** The exact state that was loaded last. It is that of the view if its `seq` is `at`; otherwise views draw the
   *  outline and show values of the state as those of another event. */
  readonly state: Signal<State | undefined> = signal(undefined);
  /** The event of the state as a row of the list of events. */
  readonly row: Signal<Row | undefined> = signal(undefined);
  readonly problem: Signal<Problem | undefined> = signal(undefined);
  readonly stateProblem: Signal<Problem | undefined> = signal(undefined);
  /** The latest frame: lists of events and logs follow it. */
  readonly frame: Signal<Frame | undefined> = signal(undefined);
  /** When the stream of frames is opened again, in milliseconds since 1970; null while it is open. */
  readonly retryAt: Signal<number | null> = signal(null);
  /** Since when there is no stream, by the clock of this browser; other requests may still succeed. */
  readonly brokenSince: Signal<number | null> = signal(null);
  /** What the run does and waits for. A worker comes and goes without a frame, so details may be as new as the latest. */
  readonly doing = computed(() => {
    const [frame, details] = [this.frame.value, this.details.value];
    return frame && frame.seq > (details?.events ?? 0) ? frame : details;
  });
  readonly latest = computed(() => this.outline.value?.seq ?? 0);
  readonly hasEnded = computed(() => ENDED.has(this.outline.value?.status ?? ""));
  readonly position = new Position(this.latest);
  /** The event that every part of the view shows. It may change ten times a second. */
  readonly at = this.position.at;
  readonly isPast = this.position.isPast;
  /** The event to make requests for: it changes when the slider has come to rest, and once a second in a live view. */
  readonly settled = this.position.settled;
  readonly isMoving = this.position.isMoving;
  /** The rows of the timeline that are expanded: they stay so while another tab is open. */
  readonly expandedRows: Signal<ReadonlySet<string>> = signal(new Set());
  #states = new Map<number, Shown>();
  #stream: LiveStream | undefined;
  #frames: Frame[] = [];
  #disposers: (() => void)[] = [];
  #detailsTimer = 0;
  #pollTimer = 0;
  #outlineTimer = 0;
  #reloading: Promise<void> | undefined;
  #loading = new AbortController();
  #stopped = false;

  constructor(id: string) {
    this.id = id;
  }

  /** The path of a part of this run in the API. */
  path(part: string): string {
    return `/executions/${encodeURIComponent(this.id)}/${part}`;
  }

  start = async (): Promise<void> => {
    await this.reload();
    if (this.#stopped || !this.outline.value) return;
    this.position.start();
    this.#disposers.push(() => this.position.stop());
    this.#disposers.push(effect(() => void this.#showState(this.settled.value)));
    this.#follow();
  };

  /** Cancels loading; the view offers to retry. */
  cancel = (): void => this.#loading.abort();

  stop(): void {
    this.#stopped = true;
    this.#stream?.stop();
    for (const dispose of this.#disposers) dispose();
    for (const timer of [this.#detailsTimer, this.#outlineTimer, this.#pollTimer]) window.clearTimeout(timer);
  }

  /** Loads details and outline; also after an action, and when frames say that they left something out. */
  reload = (): Promise<void> => {
    this.#reloading ??= this.#load().finally(() => {
      this.#reloading = undefined;
    });
    return this.#reloading;
  };

  /** Moves the view to an event: into the URL, or, while the slider moves (`settled: false`), only on the page. */
  moveTo(seq: number, { settled = true } = {}): void {
    if (settled) this.position.commit(seq);
    else this.position.move(seq, false);
  }

  /** Moves the view by a key: many movements in a row are one. */
  nudgeTo(seq: number): void {
    this.position.move(seq, true);
  }

  backToLatest(): void {
    this.position.commit(null);
  }

  retryNow = (): void => this.#stream?.retryNow();

  loadStateAgain = (): void => void this.#showState(this.settled.peek());

  async #load(): Promise<void> {
    this.#loading = new AbortController();
    const { signal } = this.#loading;
    try {
      const [details, outline] = await Promise.all([
        get<Execution>(`/executions/${encodeURIComponent(this.id)}`, { signal }),
        get<Outline>(this.path("outline"), { signal }),
      ]);
      const known = this.outline.peek();
      batch(() => {
        this.details.value = details;
        if (!known || outline.seq >= known.seq) this.outline.value = outline;
        this.problem.value = undefined;
      });
    } catch (error) {
      this.problem.value = signal.aborted ? CANCELLED : Problem.of(error);
    }
  }

  #follow(): void {
    if (this.hasEnded.value) return;
    this.#pollTimer = window.setInterval(() => {
      if (document.visibilityState === "visible" && !this.hasEnded.peek()) this.#planDetails();
    }, POLL_MS);
    this.#stream = new LiveStream(this.id, this.latest.value, {
      onFrame: (frame) => this.#queue(frame),
      onEnd: () => void this.reload(),
      onRetry: (wait) => {
        this.retryAt.value = wait === null ? null : Date.now() + wait;
        this.brokenSince.value = wait === null ? null : (this.brokenSince.peek() ?? Date.now());
      },
    });
  }

  /** One frame per animation frame. */
  #queue(frame: Frame): void {
    this.#frames.push(frame);
    if (this.#frames.length === 1) requestAnimationFrame(this.#applyNext);
  }

  #applyNext = (): void => {
    const frame = this.#frames.shift();
    if (frame && !this.#stopped) this.#apply(frame);
    if (this.#frames.length) requestAnimationFrame(this.#applyNext);
  };

  #apply(frame: Frame): void {
    const outline = this.outline.value;
    if (!outline) return;
    batch(() => {
      this.frame.value = frame;
      if (frame.reload) this.#planOutline(DETAILS_MS);
      else if (frame.seq > outline.seq) this.outline.value = mergeOutline(outline, frame.outline, frame.timestamp);
    });
    if (!outline.runs || outline.runs.step.length > 0.98 * MAX_ROWS) this.#planOutline(OUTLINE_MS);
    this.#planDetails();
  }

  #planOutline(wait: number): void {
    this.#outlineTimer ||= window.setTimeout(() => {
      this.#outlineTimer = 0;
      void this.reload();
    }, wait);
  }

  #planDetails(): void {
    this.#detailsTimer ||= window.setTimeout(async () => {
      this.#detailsTimer = 0;
      const details = await get<Execution>(`/executions/${encodeURIComponent(this.id)}`).catch(() => undefined);
      if (details && !this.#stopped) this.details.value = details;
    }, DETAILS_MS);
  }

  async #showState(at: number): Promise<void> {
    try {
      const kept = this.#states.get(at);
      // A state that was the latest may have no row; in the past it needs one.
      const shown = kept && (kept.row || !this.isPast.peek()) ? kept : await this.#loadState(at);
      this.#keepState(at, shown);
      if (this.settled.peek() !== at) return;
      batch(() => {
        this.state.value = shown.state;
        this.row.value = shown.row;
        this.stateProblem.value = undefined;
      });
    } catch (error) {
      if (this.settled.peek() === at) this.stateProblem.value = Problem.of(error);
    }
  }

  /** At the latest event of a live view, the frame has the row. */
  async #loadState(at: number): Promise<Shown> {
    const known = this.frame.peek()?.rows.at(-1);
    const [state, page] = await Promise.all([
      get<State>(this.path("state"), { query: { at } }),
      known?.[0] === at || !this.isPast.peek()
        ? null
        : get<EventPage>(this.path("events"), { query: { after: at - 1, limit: 1, view: "row" } }),
    ]);
    return { state, row: (page?.items[0] ?? (known?.[0] === at ? known : undefined)) as Row | undefined };
  }

  #keepState(at: number, shown: Shown): void {
    this.#states.delete(at);
    this.#states.set(at, shown);
    if (this.#states.size > STATES) {
      const oldest = this.#states.keys().next();
      if (!oldest.done) this.#states.delete(oldest.value);
    }
  }
}
