/** The top of the run view: its playbook, status and actions. */

import { useEffect, useRef } from "preact/hooks";
import { now } from "../../clock.ts";
import { useKeys } from "../../keys.ts";
import { isPhone } from "../../look/phone.ts";
import { Status, statusWord } from "../../look/status.tsx";
import { Button } from "../../parts/button.tsx";
import { Copy, copyAndTell } from "../../parts/copy.tsx";
import { later } from "../../parts/lazy.tsx";
import { Menu, type MenuItem } from "../../parts/menu.tsx";
import { Elapsed, Moment } from "../../parts/moment.tsx";
import { announce } from "../../parts/toast.tsx";
import { href } from "../../routes.ts";
import { offerActions } from "../../shell/palette-state.ts";
import { activityText } from "../../text/activity.ts";
import { counted, shortId } from "../../text/number.ts";
import { oneLine } from "../../text/printable.ts";
import { currentStatus, perform, type RunAction, runActions, runDialog, whyNot } from "../actions.ts";
import type { RunModel } from "../model.ts";
import { PlaybookLink } from "../playbook-link.tsx";
import { RunError } from "./error.tsx";
import "./header.css";

const RunDialogs = later("runDialogs", null);
/** These have buttons; the others are in the menu. */
const BUTTONS = ["respond", "pause", "resume", "cancel", "retry", "fork"];
const MENU_BUTTON = "run-actions";

export function RunHeader({ model }: { model: RunModel }) {
  const details = model.details.value;
  useEffect(() => offerActions("run", () => paletteActions(model)), [model]);
  useKeys("global", { actions: () => document.querySelector<HTMLElement>(`.${MENU_BUTTON} > button`)?.click() }, []);
  useEffect(
    () => () => {
      runDialog.value = null;
    },
    [],
  );
  const status = currentStatus(model);
  const lastStatus = useRef(status);
  useEffect(() => {
    if (lastStatus.current !== status) announce(`The run is ${statusWord(status)}.`);
    lastStatus.current = status;
  }, [status]);
  if (!details) return null;
  const doing = model.doing.value;
  return (
    <header class="run-header">
      <div class="run-title">
        <h1 class="cut">{oneLine(details.name)}</h1>
        <Status status={status} soft />
        {doing && status !== "failed" && doing.activity !== status && (
          <span class="run-activity cut">{oneLine(activityText(doing, now.value))}</span>
        )}
        {details.local && !model.hasEnded.value && <span class="badge">Runs in a local process</span>}
      </div>
      {!isPhone.value && <RunActions model={model} />}
      <div class="run-facts">
        <PlaybookLink model={model}>
          {details.path}
          {details.version !== null && `@${details.version}`}
        </PlaybookLink>
        <span>
          <Moment at={details.started} />, <Elapsed from={details.started} to={details.ended} />
        </span>
        <span class="run-id">
          <code title={details.execution_id}>{shortId(details.execution_id)}</code>
          <Copy text={details.execution_id} what="the run id" />
        </span>
        <RelatedLinks model={model} />
      </div>
      {status === "failed" && details.error && <RunError model={model} details={details} error={details.error} />}
      {runDialog.value && <RunDialogs model={model} />}
    </header>
  );
}

/** A bar of the actions: in the header, on a phone at the bottom. */
export function RunActions({ model }: { model: RunModel }) {
  const actions = runActions(model);
  const shown = actions.filter(({ name }) => BUTTONS.includes(name));
  const rest = actions.filter(({ name }) => !BUTTONS.includes(name));
  return (
    <div class="run-actions-bar">
      {shown.map((action) => (
        <Button
          key={action.name === "resume" ? "pause" : action.name} // one button, which keeps the focus
          kind={action.name === "respond" ? "primary" : "plain"}
          role={action.role}
          reason={action.reason}
          onClick={() => perform(action)}
        >
          {action.label}
        </Button>
      ))}
      {!isPhone.value && (
        <Menu label="Copy" items={copyItems(model)}>
          Copy
        </Menu>
      )}
      <span class={MENU_BUTTON}>
        <Menu
          label="More actions"
          icon="more"
          items={[...rest.map(menuItem), ...(isPhone.value ? copyItems(model) : [])]}
        />
      </span>
    </div>
  );
}

function menuItem(action: RunAction): MenuItem {
  const { label, role, reason } = action;
  return { label, role, reason, ...(action.href ? { href: action.href } : { onChoose: () => perform(action) }) };
}

function copyItems(model: RunModel): MenuItem[] {
  const details = model.details.value;
  const item = (label: string, what: string, text: string, hint = ""): MenuItem => ({
    label: isPhone.value ? `Copy ${what}` : label,
    hint,
    onChoose: () => void copyAndTell(text, what),
  });
  const command = `noetl runs show ${model.id}`;
  return [
    item("Run id", "the run id", model.id, model.id),
    item("Link to this view", "the link", window.location.href),
    item("CLI command", "the command", command, command),
    ...(details?.result == null ? [] : [item("Result as JSON", "the result", JSON.stringify(details.result, null, 2))]),
    ...(details?.error ? [item("Error as JSON", "the error", JSON.stringify(details.error, null, 2))] : []),
  ];
}

function paletteActions(model: RunModel) {
  return runActions(model).map((action) => ({
    label: action.label,
    reason: whyNot(action),
    run: () => perform(action),
  }));
}

/** Parent, fork source, forks and children. */
function RelatedLinks({ model }: { model: RunModel }) {
  const details = model.details.value;
  if (!details) return null;
  const { parent, forked_from: source, forks, children } = details;
  const related = href("run", { id: model.id }, { tab: "related" });
  return (
    <>
      {parent && (
        <span>
          child of <a href={href("run", { id: parent })}>{shortId(parent)}</a>
        </span>
      )}
      {source && (
        <span>
          {source.reason === "retry" ? "retry of " : "forked from "}
          <a href={href("run", { id: source.execution_id }, { at: source.seq })}>{shortId(source.execution_id)}</a> at
          event {source.seq}, <a href={href("compare", { a: source.execution_id, b: model.id })}>compare</a>
        </span>
      )}
      {children > 0 && <a href={related}>{counted(children, "child run")}</a>}
      {forks > 0 && <a href={related}>{counted(forks, "fork")}</a>}
    </>
  );
}
