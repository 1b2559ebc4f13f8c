/** Who is signed in. The session lives in a cookie; a token is kept in memory only, and only if the cookie is refused. */

import { signal } from "@preact/signals";

export type Role = "viewer" | "operator" | "author" | "admin" | "worker";

export interface Me {
  name: string;
  role: Role;
  csrf: string | null;
}

const RANK: Record<Role, number> = { worker: 0, viewer: 1, operator: 2, author: 3, admin: 4 };
const ARTICLE: Record<Role, string> = {
  worker: "a worker",
  viewer: "a viewer",
  operator: "an operator",
  author: "an author",
  admin: "an admin",
};

export const me = signal<Me | null>(null);
/** A request was answered with 401: the sign-in dialog is open over the current view. */
export const signInWanted = signal(false);

let bearer: string | null = null;
let waiters: (() => void)[] = [];

export function setToken(token: string | null): void {
  bearer = token;
}

export function identityHeaders(write: boolean): Record<string, string> {
  const headers: Record<string, string> = {};
  if (bearer) headers.Authorization = `Bearer ${bearer}`;
  const csrf = me.peek()?.csrf;
  if (write && csrf) headers["X-CSRF-Token"] = csrf;
  return headers;
}

/** Opens the sign-in dialog; resolves when the user has signed in. */
export function waitForSignIn(): Promise<void> {
  signInWanted.value = true;
  return new Promise((resolve) => waiters.push(resolve));
}

export function setUser(who: Me): void {
  me.value = who;
  signInWanted.value = false;
  const resume = waiters;
  waiters = [];
  for (const go of resume) go();
}

export function hasRole(needed: Role): boolean {
  const role = me.value?.role;
  return role !== undefined && RANK[role] >= RANK[needed];
}

/** Why an action is disabled, null if the role allows it. */
export function forbidden(needed: Role): string | null {
  if (hasRole(needed)) return null;
  const role = me.value?.role;
  return `Requires the ${needed} role.${role ? ` You are ${ARTICLE[role]}.` : ""}`;
}
