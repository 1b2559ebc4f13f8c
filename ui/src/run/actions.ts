/** The actions of a run: label, least role, and why one is disabled now. The header, the palette and the
 *  inspector offer the same actions. */

import { signal } from "@preact/signals";
import { API, post } from "../api/client.ts";
import type { LEAST_ROLE } from "../api/roles.gen.ts";
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
const isActing = signal(false); // the second click of a double click must not undo the first
const ACTING = "The last action is not finished yet.";
const ENDED: readonly Status[] = ["succeeded", "failed", "cancelled"];

/** The waits that a signal ends. */
function signalWaits(model: RunModel): Wait[] {
  return latestWaits(model).filter((wait) => wait.for === "signal");
}

export function currentStatus(model: RunModel): Status {
  return model.outline.value?.status ?? model.details.value?.status ?? "pending";
}

/** The actions that apply to the status of the run. */
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
        ...allowed<"POST /executions/{id}/signals">("respond", "Respond...", "operator"),
        run: open({ kind: "respond", wait }),
      })),
    !isOver &&
      status !== "paused" && {
        ...allowed<"POST /executions/{id}/pause">("pause", "Pause", "operator"),
        reason: isActing.value ? ACTING : status === "cancelling" ? "The run is being cancelled." : null,
        run: () => void act(model, "pause", "paused"),
      },
    status === "paused" && {
      ...allowed<"POST /executions/{id}/resume">("resume", "Resume", "operator"),
      reason: isActing.value ? ACTING : isLocal ? LOCAL : null,
      run: () => void act(model, "resume", "resumed"),
    },
    !isOver && {
      ...allowed<"POST /executions/{id}/cancel">("cancel", "Cancel...", "operator"),
      reason: status === "cancelling" ? "The run is being cancelled." : null,
      run: open({ kind: "cancel" }),
    },
    (status === "failed" || status === "cancelled") && {
      ...allowed<"POST /executions/{id}/retry">("retry", "Retry...", "operator"),
      href: href("fork", params, { retry: 1 }),
    },
    {
      ...allowed<"POST /executions/{id}/fork">("fork", at ? "Fork from here..." : "Fork...", "operator"),
      href: href("fork", params, { at }),
    },
    !isOver && {
      ...allowed<"POST /executions/{id}/signals">("signal", "Send signal...", "operator"),
      run: open({ kind: "signal" }),
    },
    { ...allowed<"GET /executions/{id}/diff">("compare", "Compare...", "viewer"), run: open({ kind: "compare" }) },
    { ...allowed<"GET /executions/{id}/export">("export", "Export", "viewer"), href: `${API}${model.path("export")}` },
  ];
  return actions.filter((action) => action !== false);
}

/** The type of the role is that of the route, so it cannot be another one than the server's. */
function allowed<R extends keyof typeof LEAST_ROLE>(
  name: string,
  label: string,
  role: (typeof LEAST_ROLE)[R] & Role,
): RunAction {
  return { name, label, role, reason: null };
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

async function act(model: RunModel, verb: "pause" | "resume", done: string): Promise<void> {
  if (isActing.peek()) return;
  isActing.value = true;
  try {
    await post<ExecutionStatus>(model.path(verb));
    toast(`The run is ${done}.`);
    await model.reload();
  } catch (error) {
    toastProblem(`The run was not ${done}`, error);
  } finally {
    isActing.value = false;
  }
}

export async function cancelRun(model: RunModel, reason: string): Promise<void> {
  await post<ExecutionStatus>(model.path("cancel"), reason ? { reason } : {});
  await model.reload();
}
