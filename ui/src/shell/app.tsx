/** The frame around every view: top bar, sections, the view of the URL. */

import type { ComponentType } from "preact";
import { path, route } from "../location.ts";
import { me, signInWanted } from "../me.ts";
import { type Lazy, later, lazy } from "../parts/lazy.tsx";
import { Empty, Loading } from "../parts/states.tsx";
import { Toasts } from "../parts/toast.tsx";
import type { Route, View } from "../routes.ts";
import RunsPage from "../runs/page.tsx";
import { SignInDialog } from "../sign-in/dialog.tsx";
import { GlobalKeys } from "./global-keys.tsx";
import { BottomBar, TopBar } from "./sections.tsx";
import "./app.css";

export type ViewProps = { params: Record<string, string> };

const EditorPage = lazy(() => import("../editor/page.tsx"));
/** All views but the list of runs are loaded when they are first opened. */
const VIEWS: Partial<Record<View, ComponentType<ViewProps> & Partial<Lazy<ViewProps>>>> = {
  runs: RunsPage,
  run: lazy(() => import("../run/page.tsx")),
  edit: EditorPage,
  newPlaybook: EditorPage,
  fork: later("fork"),
  compare: later("compare"),
  playbooks: later("playbooks"),
  playbook: later("playbook"),
  start: later("start"),
  schedules: later("schedules"),
  schedule: later("schedule"),
  hooks: later("hooks"),
  workers: later("workers"),
  credentials: later("credentials"),
  access: later("access"),
  system: later("system"),
  signIn: later("signIn"),
};

export function App() {
  const isSignIn = route.value?.view === "signIn";
  return (
    <>
      <a class="skip-link" href="#main">
        Skip to the content
      </a>
      {!isSignIn && <TopBar />}
      <main id="main" tabIndex={-1}>
        <CurrentView here={route.value} />
      </main>
      {!isSignIn && <BottomBar />}
      {signInWanted.value && !isSignIn && <SignInDialog />}
      <GlobalKeys />
      <Toasts />
    </>
  );
}

function CurrentView({ here }: { here: Route | null }) {
  const Page = here && VIEWS[here.view];
  if (!Page)
    return (
      <Empty text={`There is no page at ${path.value}.`}>
        <a href="/runs">All runs</a>
      </Empty>
    );
  Page.load?.().catch(() => {}); // while the user is being identified; the view shows a failure
  const isOpen = me.value !== null || here.view === "signIn";
  return isOpen ? <Page key={here.view + JSON.stringify(here.params)} params={here.params} /> : <Loading />;
}
