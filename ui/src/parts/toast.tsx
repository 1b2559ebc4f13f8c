/** Results of the user's actions: short messages at the edge, announced to screen readers at most every 5 s. */

import { signal } from "@preact/signals";
import { Problem } from "../api/client.ts";
import { Button } from "./button.tsx";
import "./toast.css";

interface Message {
  id: number;
  text: string;
  tone: "good" | "bad";
  link?: undefined | { href: string; text: string };
}

const SHOWN_MS = 6000;
const ANNOUNCED_MS = 5000;

const messages = signal<Message[]>([]);
const announcement = signal("");
let lastId = 0;
let lastAnnounced = 0;
let pending = 0;

export function toast(text: string, options: { tone?: Message["tone"]; link?: Message["link"] } = {}): void {
  lastId += 1;
  const id = lastId;
  const { tone = "good", link } = options;
  messages.value = [...messages.value.slice(-3), { id, text, tone, link }];
  announce(text);
  if (tone === "good") window.setTimeout(() => dismiss(id), SHOWN_MS);
}

/** A failed action stays until it is read. */
export function toastProblem(action: string, error: unknown): void {
  const reason = error instanceof Problem ? error.message : String(error);
  toast(`${action}: ${reason}`, { tone: "bad" });
}

/** Announces a text to screen readers; of several within 5 s only the last one. */
export function announce(text: string): void {
  window.clearTimeout(pending);
  const wait = Math.max(0, lastAnnounced + ANNOUNCED_MS - Date.now());
  pending = window.setTimeout(() => {
    lastAnnounced = Date.now();
    announcement.value = text;
  }, wait);
}

function dismiss(id: number): void {
  messages.value = messages.value.filter((message) => message.id !== id);
}

export function Toasts() {
  return (
    <section aria-label="Messages">
      <div class="hidden-text" aria-live="polite" role="status">
        {announcement}
      </div>
      <ul class="toasts">
        {messages.value.map((message) => (
          <li key={message.id} class={message.tone}>
            <span>
              {message.text} {message.link && <a href={message.link.href}>{message.link.text}</a>}
            </span>
            <Button kind="quiet" icon="close" label="Dismiss" onClick={() => dismiss(message.id)} />
          </li>
        ))}
      </ul>
    </section>
  );
}
