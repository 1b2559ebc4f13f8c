/** Frames of a run in progress: read with fetch, resumed by seq, closed while the tab is hidden. */

import { waitForSignIn } from "../me.ts";
import { Problem, problemOf, send } from "./client.ts";
import type { Frame } from "./types.gen.ts";

const HIDDEN_MS = 30_000;
const LONGEST_WAIT_MS = 30_000;

interface LiveHandlers {
  onFrame(frame: Frame): void;
  onEnd(): void;
  onRetry(waitMs: number | null): void; // the stream broke and is opened again after a while; null: it is open
}

/** Follows the frames after a seq until `stop` is called or the run has ended. */
export class LiveStream {
  #after: number;
  #stopped = false;
  #failures = 0;
  #reading: AbortController | undefined;
  #hiddenTimer = 0;
  #endWait = () => {};
  readonly #id: string;
  readonly #handlers: LiveHandlers;

  constructor(id: string, after: number, handlers: LiveHandlers) {
    this.#id = id;
    this.#after = after;
    this.#handlers = handlers;
    document.addEventListener("visibilitychange", this.#onVisibility);
    void this.#follow();
  }

  stop = (): void => {
    this.#stopped = true;
    this.#reading?.abort();
    window.clearTimeout(this.#hiddenTimer);
    document.removeEventListener("visibilitychange", this.#onVisibility);
  };

  /** Opens the stream again without waiting. */
  retryNow = (): void => this.#endWait();

  #onVisibility = (): void => {
    window.clearTimeout(this.#hiddenTimer);
    if (document.visibilityState === "hidden") {
      this.#hiddenTimer = window.setTimeout(() => this.#reading?.abort(), HIDDEN_MS);
    } else if (!this.#reading) void this.#follow();
  };

  async #follow(): Promise<void> {
    while (!this.#stopped && !this.#reading && document.visibilityState === "visible") {
      const reading = new AbortController();
      this.#reading = reading;
      try {
        if (await this.#read(reading.signal)) {
          this.stop();
          this.#handlers.onEnd();
          return;
        }
      } catch (error) {
        if (error instanceof Problem && error.status >= 400 && error.status < 500) {
          if (error.status !== 401) return this.stop();
          await waitForSignIn();
        }
      } finally {
        this.#reading = undefined;
      }
      if (reading.signal.aborted) return;
      await this.#backOff();
    }
  }

  /** Reads one stream; true if the run has ended. */
  async #read(signal: AbortSignal): Promise<boolean> {
    const response = await send("GET", `/executions/${this.#id}/live`, {
      query: { after: this.#after },
      headers: { Accept: "text/event-stream", "Last-Event-ID": String(this.#after) },
      signal,
      anonymous: true,
    });
    if (response.status === 204) return true; // it ended while the stream was broken
    if (!response.ok || !response.body) throw await problemOf(response);
    this.#handlers.onRetry(null);
    for await (const { event, data } of messages(response.body)) {
      this.#failures = 0;
      if (event === "end") return true;
      if (!data) continue;
      const frame = JSON.parse(data) as Frame;
      this.#after = frame.seq;
      this.#handlers.onFrame(frame);
    }
    return false;
  }

  async #backOff(): Promise<void> {
    const wait = Math.min(LONGEST_WAIT_MS, 500 * 2 ** this.#failures);
    this.#failures += 1;
    this.#handlers.onRetry(wait);
    await new Promise<void>((resolve) => {
      const timer = window.setTimeout(resolve, wait);
      this.#endWait = () => {
        window.clearTimeout(timer);
        resolve();
      };
    });
  }
}

interface Message {
  event: string;
  data: string;
}

/** The messages of an event stream. */
export async function* messages(body: ReadableStream<Uint8Array>): AsyncGenerator<Message> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + decoder.decode(value, { stream: true })).split(/\r?\n\r?\n/);
      rest = blocks.pop() ?? "";
      for (const block of blocks) yield message(block);
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

function message(block: string): Message {
  const fields: Message = { event: "", data: "" };
  for (const line of block.split(/\r?\n/)) {
    const [, name, text = ""] = /^(event|data): ?(.*)$/.exec(line) ?? [];
    if (name === "event") fields.event = text;
    if (name === "data") fields.data += fields.data ? `\n${text}` : text;
  }
  return fields;
}
