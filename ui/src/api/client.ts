/** Requests to the API: problem details, CSRF, sign-in on 401. */

import { recordFailure, recordResponse } from "../clock.ts";
import { identityHeaders, waitForSignIn } from "../me.ts";
import { parseJson } from "../text/json.ts";
import type { Finding, ProblemDetails } from "./types.gen.ts";

export const API = "/api/v1";

/** The error of a request: the problem details of the server, or that it could not be reached. */
export class Problem extends Error {
  override name = "Problem";
  readonly status: number; // 0: the server was not reached
  readonly title: string;
  readonly detail: string;
  readonly requestId: string;
  readonly findings: Finding[];

  constructor(details: Partial<ProblemDetails>) {
    super(details.detail || details.title || "The request failed.");
    this.status = details.status ?? 0;
    this.title = details.title ?? "";
    this.detail = details.detail ?? "";
    this.requestId = details.request_id ?? "";
    this.findings = details.problems ?? [];
  }

  /** An error that was caught, as a problem to show. */
  static of(error: unknown): Problem {
    return error instanceof Problem ? error : new Problem({ title: "The page failed.", detail: String(error) });
  }
}

export interface RequestOptions {
  query?: Record<string, string | number | boolean | string[] | null | undefined>;
  body?: unknown; // sent as JSON, also if it is a string
  yaml?: string; // the text of a playbook, in place of a body
  headers?: Record<string, string>;
  signal?: AbortSignal;
  anonymous?: boolean; // a 401 is an answer, not a reason to sign in
}

type Method = "GET" | "POST" | "PUT" | "DELETE";

/** A path of the API with a query. */
export function withQuery(path: string, query: RequestOptions["query"] = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value == null || value === "") continue;
    for (const item of Array.isArray(value) ? value : [value]) search.append(name, String(item));
  }
  const text = search.toString();
  return path + (text ? `?${text}` : "");
}

export function url(path: string, query: RequestOptions["query"] = {}): string {
  return API + withQuery(path, query);
}

/** The answer of the server, whatever its status; after a 401 the user signs in and the request is repeated. */
export async function send(method: Method, path: string, options: RequestOptions = {}): Promise<Response> {
  for (;;) {
    const response = await reach(method, url(path, options.query), options);
    if (response.status !== 401 || options.anonymous) return response;
    await waitForSignIn();
  }
}

async function reach(method: Method, address: string, options: RequestOptions): Promise<Response> {
  const { yaml, headers, signal } = options;
  const body = yaml ?? JSON.stringify(options.body);
  try {
    const response = await fetch(address, {
      method,
      credentials: "same-origin",
      headers: {
        Accept: "application/json",
        ...(body === undefined ? {} : { "Content-Type": `application/${yaml === undefined ? "json" : "yaml"}` }),
        ...identityHeaders(method !== "GET"),
        ...headers,
      },
      ...(body === undefined ? {} : { body }),
      ...(signal ? { signal } : {}),
    });
    recordResponse(response.headers.get("Date"));
    return response;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    recordFailure();
    throw new Problem({ title: "The server is not responding.", detail: "The server is not responding." });
  }
}

/** The JSON of a successful answer; a Problem is thrown for any other. */
export async function request<T>(method: Method, path: string, options: RequestOptions = {}): Promise<T> {
  return answer<T>(await send(method, path, options));
}

export async function answer<T>(response: Response): Promise<T> {
  if (!response.ok) throw await problemOf(response);
  return (response.status === 204 ? null : parseJson(await response.text())) as T;
}

export async function problemOf(response: Response): Promise<Problem> {
  const fallback = {
    status: response.status,
    title: response.statusText,
    detail: `The server responded with status ${response.status}.`,
  };
  try {
    return new Problem({ ...fallback, ...((await response.json()) as ProblemDetails) });
  } catch {
    return new Problem(fallback);
  }
}

export const get = <T>(path: string, options?: RequestOptions) => request<T>("GET", path, options);
export const post = <T>(path: string, body: unknown = {}, options?: RequestOptions) =>
  request<T>("POST", path, { ...options, body });

/** A key that makes a repeated request the same request: a double click creates one run. */
export function idempotencyKey(): string {
  // Not randomUUID, which a page has only with HTTPS or on localhost.
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
