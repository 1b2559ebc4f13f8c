/** The Idempotency-Key of a form: it stays the same while the request does, so that a double click creates one run. */

import { idempotencyKey } from "./client.ts";

export class RepeatKey {
  #request = "";
  #key = "";

  headers(request: unknown): { "Idempotency-Key": string } {
    const text = JSON.stringify(request);
    if (text !== this.#request) {
      this.#request = text;
      this.#key = idempotencyKey();
    }
    return { "Idempotency-Key": this.#key };
  }
}
