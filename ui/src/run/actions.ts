/** What can be done with a run: label, least role, and why it cannot be done now. The header, the palette and the
 *  inspector offer the same actions. */

import { signal } from "@preact/signals";
import { API, post } from "../api/client.ts";
import { LEAST_ROLE } from "../api/roles.gen.ts";
import type { ExecutionStatus, Status, Wait } from "../api/types.gen.ts";
import { go } from "../location.ts";
import { forbidden, type Role } from "../me.ts";
import { toast, toastProblem } from "../parts/toast.tsx";
import { href } from "../routes.ts";
import { latestWaits } from "./graph/state.ts";
import type { RunModel } from "./model.ts";

export interface RunAction {
  name: string;
  label: string;
  role: Role;
  reason: string | null; // why it is disabled, beside the role
  href?: string;
  run?: () => void;
}

type RunDialog = { kind: "cancel" | "signal" | "compare" } | { kind: "respond"; wait: Wait };
/** The dialog that is open over the run. */
export const runDialog = signal<RunDialog | null>(null);

const LOCAL = "Runs in a local process.";
const ENDED: readonly Status[] = ["succeeded", "failed", "cancelled"];

/** The waits that a signal ends. */
function signalWaits(model: RunModel): Wait[] {
  return latestWaits(model).filter((wait) => wait.for === "signal");
}

export function currentStatus(model: RunModel): Status {
  return model.outline.value?.status ?? model.details.value?.status ?? "pending";
}

/** The actions that suit the status of the run; those that do not apply to it at all are left out. */
export function runActions(model: RunModel): RunAction[] {
  const status = currentStatus(model);
  const isOver = ENDED.includes(status);
  const isLocal = model.details.value?.local ?? false;
  const at = model.isPast.value ? model.at.value : null;
  const params = { id: model.id };
  const open = (dialog: RunDialog) => () => {
    runDialog.value = dialog;
  };
  const actions: (RunAction | false)[] = [
    ...signalWaits(model)
      .slice(0, 1)
      .map((wait) => ({
        ...allowed("respond", "Respond...", "POST /executions/{id}/signals"),
        run: open({ kind: "respond", wait }),
      })),
    !isOver &&
      status !== "paused" && {
        ...allowed("pause", "Pause", "POST /executions/{id}/pause"),
        reason: status === "cancelling" ? "The run is being cancelled." : null,
        run: () => void act(model, "pause", "paused"),
      },
    status === "paused" && {
      ...allowed("resume", "Resume", "POST /executions/{id}/resume"),
      reason: isLocal ? LOCAL : null,
      run: () => void act(model, "resume", "resumed"),
    },
    !isOver && {
      ...allowed("cancel", "Cancel...", "POST /executions/{id}/cancel"),
      reason: status === "cancelling" ? "The run is being cancelled." : null,
      run: open({ kind: "cancel" }),
    },
    (status === "failed" || status === "cancelled") && {
      ...allowed("retry", "Retry...", "POST /executions/{id}/retry"),
      href: href("fork", params, { retry: 1 }),
    },
    {
      ...allowed("fork", at ? "Fork from here..." : "Fork...", "POST /executions/{id}/fork"),
      href: href("fork", params, { at }),
    },
    !isOver && {
      ...allowed("signal", "Send signal...", "POST /executions/{id}/signals"),
      run: open({ kind: "signal" }),
    },
    { ...allowed("compare", "Compare...", "GET /executions/{id}/diff"), run: open({ kind: "compare" }) },
    { ...allowed("export", "Export", "GET /executions/{id}/export"), href: `${API}${model.path("export")}` },
  ];
  return actions.filter((action) => action !== false);
}

function allowed(name: string, label: string, route: keyof typeof LEAST_ROLE): RunAction {
  return { name, label, role: LEAST_ROLE[route] ?? "viewer", reason: null };
}

export function whyNot(action: RunAction): string | null {
  return forbidden(action.role) ?? action.reason;
}

/** Does an action as a click on its button does. */
export function perform(action: RunAction): void {
  if (whyNot(action)) return;
  if (action.run) action.run();
  else if (action.href?.startsWith(API)) window.location.assign(action.href);
  else if (action.href) go(action.href);
}

let isActing = false; // the second click of a double click must not undo the first

async function act(model: RunModel, verb: "pause" | "resume", done: string): Promise<void> {
  if (isActing) return;
  isActing = true;
  try {
    await post<ExecutionStatus>(model.path(verb));
    toast(`The run is ${done}.`);
    await model.reload();
  } catch (error) {
    toastProblem(`The run was not ${done}`, error);
  } finally {
    isActing = false;
  }
}

export async function cancelRun(model: RunModel, reason: string): Promise<boolean> {
  try {
    await post<ExecutionStatus>(model.path("cancel"), reason ? { reason } : {});
    toast("The run is being cancelled.");
    await model.reload();
    return true;
  } catch (error) {
    toastProblem("The run was not cancelled", error);
    return false;
  }
}
