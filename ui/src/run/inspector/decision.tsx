import type { Decision, Reason } from "../../api/types.gen.ts";
import { StatusIcon } from "../../look/status.tsx";
import { Copy } from "../../parts/copy.tsx";
import { Moment } from "../../parts/moment.tsx";
import { count } from "../../text/number.ts";
import { printable } from "../../text/printable.ts";
import type { RunModel } from "../model.ts";
import { PlaybookLink } from "../playbook-link.tsx";
import { ErrorBox } from "./error-box.tsx";
import { EventLink, Sentence } from "./sentence.tsx";
import { ShortValue } from "./short-value.tsx";

const TITLES: Record<Decision["kind"], string> = {
  arcs: "Arcs of",
  rules: "Rules of",
  admission: "Admission to",
  case: "Cases of",
};

interface DecisionProps {
  model: RunModel;
  decision: Decision;
  marked?: string | undefined; // the selected step
}

/** One decision: its event, its result, and each arc or rule in order. */
export function DecisionView({ model, decision, marked }: DecisionProps) {
  const { seq, kind, about, says, reasons, differs, error } = decision;
  const isHere = model.at.value === seq;
  return (
    <li class={isHere ? "decision here" : "decision"}>
      <div class="decision-head">
        <EventLink model={model} seq={seq} text={count(seq)} />
        <strong class="cut">
          {TITLES[kind]} {about}
        </strong>
        <span class="quiet">
          <Moment at={decision.timestamp} withMillis />
        </span>
      </div>
      <Sentence model={model} text={says} />
      {reasons.length > 0 && (
        <ol class="reasons">
          {reasons.map((reason, place) => (
            <ReasonView key={place} model={model} reason={reason} isMarked={reason.leads_to === marked} />
          ))}
        </ol>
      )}
      {differs && (
        <p class="differs">
          Evaluated again now, the result is different: {printable(differs)}. The log is authoritative.
        </p>
      )}
      {error && <ErrorBox error={error} />}
    </li>
  );
}

const VERDICTS: Record<Reason["verdict"], { icon: string; words: string }> = {
  matched: { icon: "succeeded", words: "matched" },
  "not matched": { icon: "cancelled", words: "not matched" },
  "not reached": { icon: "pending", words: "not reached" },
  error: { icon: "failed", words: "failed to evaluate" },
};

function ReasonView({ model, reason, isMarked }: { model: RunModel; reason: Reason; isMarked: boolean }) {
  const { icon, words } = VERDICTS[reason.verdict];
  return (
    <li class={`reason verdict-${reason.verdict.replace(" ", "-")}${isMarked ? " marked" : ""}`}>
      <div class="reason-head">
        <StatusIcon status={icon} />
        <span>{words}</span> <strong class="cut">{reason.leads_to}</strong>{" "}
        {reason.line !== null && (
          <PlaybookLink model={model} line={reason.line}>
            line {reason.line}
          </PlaybookLink>
        )}
      </div>
      {reason.when !== null && (
        <div class="guard">
          <code>{printable(reason.when)}</code>
          <Copy text={reason.when} what="the guard" />
        </div>
      )}
      {Object.entries(reason.values).map(([name, value]) => (
        <ShortValue key={name} name={name} value={value} />
      ))}
      {reason.missing.map((name) => (
        <p key={name} class="missing">
          <code>{name}</code> does not exist
        </p>
      ))}
      {reason.note && <p class="quiet">{reason.note}</p>}
    </li>
  );
}
