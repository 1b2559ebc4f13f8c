/** Starting a session: by name and password, or from the token of the link that `noetl dev` prints. */

import { get, Problem, post } from "../api/client.ts";
import type { LoginRequest, NewSession, SessionPage } from "../api/types.gen.ts";
import { me, type Role, setToken, setUser } from "../me.ts";
import { decode } from "../routes.ts";

const COOKIE_REFUSED = "Signing in requires HTTPS or localhost.";

/** The user of the cookie; false if nobody is signed in. */
export async function resumeSession(): Promise<boolean> {
  try {
    const session = await get<SessionPage>("/sessions", { anonymous: true });
    setUser({ name: session.name, role: session.role as Role, csrf: session.csrf_token });
    return true;
  } catch (error) {
    if (error instanceof Problem && error.status !== 0) return false;
    throw error;
  }
}

export async function signIn(user: string, password: string): Promise<void> {
  await startSession({ user, password });
  if (!(await resumeSession())) {
    me.value = null;
    throw new Problem({ title: COOKIE_REFUSED, detail: COOKIE_REFUSED });
  }
}

/** A session with the role of the token. If the browser refuses the cookie, the token stays in memory only. */
export async function signInWithToken(token: string): Promise<void> {
  await startSession({ token });
  if (await resumeSession()) return;
  setToken(token);
  if (!(await resumeSession())) setToken(null);
}

async function startSession(login: LoginRequest): Promise<NewSession> {
  return post<NewSession>("/sessions", login, { anonymous: true });
}

/** The token in the fragment of the URL, which is removed so that it is in no history and no copied link. */
export function takeToken(): string | null {
  const match = /^#token=(.+)$/.exec(window.location.hash);
  if (!match?.[1]) return null;
  window.history.replaceState(null, "", window.location.pathname + window.location.search);
  return decode(match[1]);
}
