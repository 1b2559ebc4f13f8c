/** The frame around every view: top bar, sections, the view of the URL. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Problem } from "../api/client.ts";
import { path, route } from "../location.ts";
import { me, signInWanted } from "../me.ts";
import { Empty, Loading, ProblemBox } from "../parts/states.tsx";
import { Toasts } from "../parts/toast.tsx";
import type { Route, View } from "../routes.ts";
import { SignInDialog } from "../sign-in/dialog.tsx";
import { GlobalKeys } from "./global-keys.tsx";
import { BottomBar, TopBar } from "./sections.tsx";
import "./app.css";

export type ViewProps = { params: Record<string, string> };
type Loader = () => Promise<{ default: ComponentType<ViewProps> }>;

/** Where each view is; a view is loaded when it is first opened. */
const VIEWS: Partial<Record<View, Loader>> = {
  runs: () => import("../runs/page.tsx"),
  run: () => import("../run/page.tsx"),
  fork: () => import("../fork/page.tsx"),
  compare: () => import("../compare/page.tsx"),
  playbooks: () => import("../playbooks/page.tsx"),
  playbook: () => import("../playbooks/playbook.tsx"),
  start: () => import("../start/page.tsx"),
  schedules: () => import("../schedules/page.tsx"),
  schedule: () => import("../schedules/schedule.tsx"),
  hooks: () => import("../hooks/page.tsx"),
  workers: () => import("../workers/page.tsx"),
  credentials: () => import("../credentials/page.tsx"),
  access: () => import("../access/page.tsx"),
  system: () => import("../system/page.tsx"),
  edit: () => import("../editor/page.tsx"),
  newPlaybook: () => import("../editor/page.tsx"),
  signIn: () => import("../sign-in/page.tsx"),
};

/** A server that was upgraded has other files: loading the page again finds them. */
const NOT_LOADED = new Problem({
  title: "The view could not be loaded.",
  detail: "The server is not responding, or it serves a newer page than this one. Retry loads the page again.",
});
const loaded = new Map<View, ComponentType<ViewProps>>();

export function App() {
  return (
    <>
      <a class="skip-link" href="#main">
        Skip to the content
      </a>
      <TopBar />
      <main id="main" tabIndex={-1}>
        <CurrentView here={route.value} />
      </main>
      <BottomBar />
      {signInWanted.value && route.value?.view !== "signIn" && <SignInDialog />}
      <GlobalKeys />
      <Toasts />
    </>
  );
}

function CurrentView({ here }: { here: Route | null }) {
  const view = here?.view;
  const loader = view && VIEWS[view];
  const [, redraw] = useState(0);
  const [failed, setFailed] = useState<View | null>(null);
  const isOpen = me.value !== null || view === "signIn";
  useEffect(() => {
    if (!view || !loader || loaded.has(view)) return;
    let current = true;
    loader()
      .then((module) => loaded.set(view, module.default))
      .catch(() => current && setFailed(view))
      .finally(() => current && redraw((n) => n + 1));
    return () => {
      current = false;
    };
  }, [view, loader]);
  if (!here || !loader) return <Empty text={`There is no page at ${path.value}.`} />;
  const Page = loaded.get(here.view);
  if (!Page && failed === here.view)
    return <ProblemBox problem={NOT_LOADED} onRetry={() => window.location.reload()} />;
  return Page && isOpen ? <Page key={here.view + JSON.stringify(here.params)} params={here.params} /> : <Loading />;
}
