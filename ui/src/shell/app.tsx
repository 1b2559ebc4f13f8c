/** The frame around every view: top bar, sections, the view of the URL. */

import { path, route } from "../location.ts";
import { me, signInWanted } from "../me.ts";
import { type Lazy, lazy } from "../parts/lazy.tsx";
import { Empty, Loading } from "../parts/states.tsx";
import { Toasts } from "../parts/toast.tsx";
import type { Route, View } from "../routes.ts";
import { SignInDialog } from "../sign-in/dialog.tsx";
import { GlobalKeys } from "./global-keys.tsx";
import { BottomBar, TopBar } from "./sections.tsx";
import "./app.css";

export type ViewProps = { params: Record<string, string> };

/** Where each view is; a view is loaded when it is first opened. */
const VIEWS: Partial<Record<View, Lazy<ViewProps>>> = {
  runs: lazy(() => import("../runs/page.tsx")),
  run: lazy(() => import("../run/page.tsx")),
  fork: lazy(() => import("../fork/page.tsx")),
  compare: lazy(() => import("../compare/page.tsx")),
  playbooks: lazy(() => import("../playbooks/page.tsx")),
  playbook: lazy(() => import("../playbooks/playbook.tsx")),
  start: lazy(() => import("../start/page.tsx")),
  schedules: lazy(() => import("../schedules/page.tsx")),
  schedule: lazy(() => import("../schedules/schedule.tsx")),
  hooks: lazy(() => import("../hooks/page.tsx")),
  workers: lazy(() => import("../workers/page.tsx")),
  credentials: lazy(() => import("../credentials/page.tsx")),
  access: lazy(() => import("../access/page.tsx")),
  system: lazy(() => import("../system/page.tsx")),
  edit: lazy(() => import("../editor/page.tsx")),
  newPlaybook: lazy(() => import("../editor/page.tsx")),
  signIn: lazy(() => import("../sign-in/page.tsx")),
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
  Page.load().catch(() => {}); // while the user is being identified; the view shows a failure
  const isOpen = me.value !== null || here.view === "signIn";
  return isOpen ? <Page key={here.view + JSON.stringify(here.params)} params={here.params} /> : <Loading />;
}
