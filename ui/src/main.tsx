import { render } from "preact";
import { startProbing } from "./api/probe.ts";
import { startClock } from "./clock.ts";
import { go, path, startNavigation } from "./location.ts";
import { waitForSignIn } from "./me.ts";
import { toastProblem } from "./parts/toast.tsx";
import { App } from "./shell/app.tsx";
import { resumeSession, signInWithToken, takeToken } from "./sign-in/session.ts";
import "./look/tokens.css";
import "./look/base.css";

const RETRY_MS = 2000;

async function identify(token: string | null): Promise<void> {
  try {
    if (token) await signInWithToken(token);
    else if (!(await resumeSession()) && path.value !== "/sign-in") void waitForSignIn();
  } catch (error) {
    if (token) toastProblem("The link did not sign you in", error);
    window.setTimeout(() => identify(null), RETRY_MS);
  }
}

startNavigation();
startClock();
startProbing();
const token = takeToken(); // before the URL changes
if (path.value === "/") go("/runs", { replace: true });
const root = document.getElementById("app");
if (root) render(<App />, root);
void identify(token);
