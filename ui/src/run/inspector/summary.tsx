/** The run as a whole, while nothing is selected. */

import type { Actor, Execution, ExecutionError, Wait } from "../../api/types.gen.ts";
import { Status, StatusIcon } from "../../look/status.tsx";
import { Button } from "../../parts/button.tsx";
import { Countdown, Elapsed, Moment } from "../../parts/moment.tsx";
import { Value } from "../../parts/value.tsx";
import { href } from "../../routes.ts";
import { count, counted, shortId } from "../../text/number.ts";
import { printable } from "../../text/printable.ts";
import { duration } from "../../text/time.ts";
import { currentStatus, runDialog } from "../actions.ts";
import { waitsAt } from "../graph/state.ts";
import type { RunModel } from "../model.ts";
import { elapsedAt } from "../outline/time.ts";
import { stepOf } from "../selection.ts";
import { SelectLink } from "./select-link.tsx";

export function Summary({ model }: { model: RunModel }) {
  const details = model.details.value;
  if (!details) return null;
  const state = model.state.value;
  const exact = state?.seq === model.at.value ? state : undefined;
  const isPast = model.isPast.value;
  const waits = waitsAt(model);
  const result = isPast ? exact?.result : details.result;
  return (
    <>
      <header class="inspector-heading">
        <div>
          <h2>{isPast ? `Run at event ${count(model.at.value)}` : "Run"}</h2>
          <Status status={isPast ? (exact?.status ?? "running") : currentStatus(model)} soft />
        </div>
      </header>
      <div class="padded">
        {waits.length > 0 && <Waits waits={waits} isPast={isPast} />}
        {details.warnings.map((text) => (
          <p key={text} class="notice">
            {printable(text)}
          </p>
        ))}
        {details.continued_errors > 0 && <Continued details={details} isPast={isPast} />}
        <Facts model={model} details={details} isPast={isPast} />
        {result != null && (
          <section>
            <h3>Result</h3>
            <Value value={result} label="Result of the run" prefix="" />
          </section>
        )}
        {state?.workload && <Inputs payload={details.payload} workload={state.workload} />}
      </div>
    </>
  );
}

/** The `workload` that templates read: the payload over the defaults of the playbook. */
function Inputs({ payload, workload }: { payload: Record<string, unknown>; workload: Record<string, unknown> }) {
  const [given, all] = [Object.keys(payload), Object.keys(workload).length];
  return (
    <section>
      <h3>Inputs</h3>
      {given.length < all ? (
        <p class="quiet">
          {given.length
            ? printable(`Given: ${given.join(", ")}. The rest are defaults of the playbook.`)
            : "The run was started with the defaults of the playbook."}
        </p>
      ) : (
        !all && <p class="quiet">The run has no inputs.</p>
      )}
      {all > 0 && <Value value={workload} label="Inputs of the run" prefix="workload" />}
    </section>
  );
}

function Waits({ waits, isPast }: { waits: Wait[]; isPast: boolean }) {
  return (
    <section>
      <h3>Waits</h3>
      <ul class="waits">
        {waits.map((wait) => (
          <li key={`${wait.run} ${wait.item} ${wait.for} ${wait.name}`}>
            <StatusIcon status={wait.for === "admission" ? "held" : "waiting"} />
            <div>
              <p>
                <SelectLink {...(stepOf(wait.run) ? { run: wait.run, item: wait.item } : { step: wait.run })}>
                  {placeOf(wait)}
                </SelectLink>
                {printable(withoutPlace(wait))}
              </p>
              <p class="quiet">
                {isPast ? "since " : "for "}
                {isPast ? <Moment at={wait.since} /> : <Elapsed from={wait.since} />}
                {wait.due && <>, due {isPast ? <Moment at={wait.due} /> : <Countdown due={wait.due} />}</>}
              </p>
            </div>
            {wait.for === "signal" && !isPast && (
              <Button
                role="operator"
                onClick={() => {
                  runDialog.value = { kind: "respond", wait };
                }}
              >
                Respond...
              </Button>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}

/** `fetch#1`, or `fetch#1[3]` for an item, as messages begin. */
function placeOf({ run, item }: Wait): string {
  return item === null ? run : `${run}[${item}]`;
}

function withoutPlace(wait: Wait): string {
  const place = `${placeOf(wait)} `;
  return wait.message.startsWith(place) ? wait.message.slice(place.length - 1) : `: ${wait.message}`;
}

/** Errors that a policy continued past. */
function Continued({ details, isPast }: { details: Execution; isPast: boolean }) {
  const rest = details.continued_errors - details.continued.length;
  return (
    <section>
      <h3>
        {counted(details.continued_errors, "error")} that the {isPast ? "whole run" : "run"} continued past
      </h3>
      <ul class="continued">
        {details.continued.map((error, place) => (
          <li key={place}>
            <ContinuedError error={error} />
          </li>
        ))}
        {rest > 0 && <li class="quiet">and {counted(rest, "more", "more")}</li>}
      </ul>
    </section>
  );
}

function ContinuedError({ error }: { error: ExecutionError }) {
  const { step, item } = error;
  const name = `${step ?? "run"}${item === null ? "" : `, item ${item}`}`;
  return (
    <>
      {step ? (
        <SelectLink step={step} item={item}>
          {name}
        </SelectLink>
      ) : (
        name
      )}
      : {error.kind}, {printable(error.message ?? "")}
    </>
  );
}

/** At a past event, the duration and the number of events so far. */
function Facts({ model, details, isPast }: { model: RunModel; details: Execution; isPast: boolean }) {
  const { trigger, actor } = details;
  const [at, latest] = [model.at.value, model.latest.value];
  return (
    <dl class="facts">
      <Fact name="Started">
        <Moment at={details.started} withMillis />
      </Fact>
      {details.ended && !isPast && (
        <Fact name="Ended">
          <Moment at={details.ended} withMillis />
        </Fact>
      )}
      <Fact name="Duration">
        {isPast ? duration(elapsedAt(model.outline.value!, at)) : <Elapsed from={details.started} to={details.ended} />}
      </Fact>
      <Fact name="Events">{isPast ? `${count(at)} of ${count(latest)}` : count(latest)}</Fact>
      <Fact name="Trigger">
        <TriggerWords trigger={trigger} />
      </Fact>
      {actor && <Fact name="Started by">{actorWords(actor)}</Fact>}
      {details.cancelled_by && <Fact name="Cancelled by">{actorWords(details.cancelled_by)}</Fact>}
      {details.cancel_reason && <Fact name="Reason">{printable(details.cancel_reason)}</Fact>}
    </dl>
  );
}

/** The trigger of the run; a parent or a fork source is a link. */
function TriggerWords({ trigger: { kind, name } }: { trigger: Execution["trigger"] }) {
  if (kind === "api") return <>request</>;
  if (kind === "schedule" || kind === "hook") return <>{`${kind} ${name}`}</>;
  return (
    <>
      {kind === "child" ? "child of" : "fork of"} <a href={href("run", { id: name })}>{shortId(name)}</a>
    </>
  );
}

function Fact({ name, children }: { name: string; children: preact.ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

export function actorWords(actor: Actor): string {
  if (!actor.name) return `an unnamed ${actor.kind}`;
  return actor.kind === "user" ? actor.name : `${actor.kind} ${actor.name}`;
}
