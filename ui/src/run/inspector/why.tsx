/** The explanation of a step, a step run, an item or an arc: a sentence, then the decisions, newest first. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { get } from "../../api/client.ts";
import type { Decision, Explanation } from "../../api/types.gen.ts";
import { statusWord } from "../../look/status.tsx";
import { Button } from "../../parts/button.tsx";
import { toastProblem } from "../../parts/toast.tsx";
import { count } from "../../text/number.ts";
import type { RunModel } from "../model.ts";
import { scheduledSeq } from "../outline/outline.ts";
import { DecisionView } from "./decision.tsx";
import { Followed, partPath, useFollowing } from "./following.tsx";
import { Sentence } from "./sentence.tsx";
import "./why.css";

export interface Subject {
  step?: string;
  run?: string;
  item?: number | null;
  arc?: string; // in place of the step
}

interface WhyProps {
  model: RunModel;
  subject: Subject;
  marked?: string; // the selected step
  state?: string | undefined; // the current state in a sentence, if the server has none
}

export function Why({ model, subject, marked, state }: WhyProps) {
  const query = { ...existing(model, subject) };
  const explanation = useFollowing<Explanation>(model, "explain", query);
  const older = useOlder(model, query);
  const { data } = explanation;
  if (!data) return <Followed by={explanation}>{() => null}</Followed>;
  const first = data.decisions[0]?.seq ?? 0;
  const earlier = older.items.value.filter(({ seq }) => seq < first);
  const cursor = older.items.value.length ? older.next.value : data.next;
  const decisions = [...data.decisions.toReversed(), ...earlier];
  return (
    <div class="why">
      <div class="why-state">
        {data.stands.length ? (
          data.stands.map((text) => <Sentence key={text} model={model} text={text} />)
        ) : (
          <p>{state ?? stateOf(data)}</p>
        )}
      </div>
      {decisions.length > 0 && (
        <ol class="decisions" aria-label="Decisions, newest first">
          {decisions.map((decision) => (
            <DecisionView key={`${decision.seq} ${decision.about}`} model={model} decision={decision} marked={marked} />
          ))}
        </ol>
      )}
      {cursor !== null && (
        <Button busy={older.isBusy.value} onClick={() => older.load(cursor)}>
          Earlier decisions
        </Button>
      )}
    </div>
  );
}

/** A step run that began after the event of the view did not exist then: the question is about its step. */
function existing(model: RunModel, subject: Subject): Subject {
  const outline = model.outline.value;
  const begun = outline && subject.run ? scheduledSeq(outline, subject.run) : 0;
  return begun > model.settled.value && subject.step ? { step: subject.step } : { ...subject };
}

/** The state of a step that the server has nothing more to say about. */
function stateOf({ step, run, status, runs }: Explanation): string {
  if (run) return `${run} ${status ? isWord(status) : "has not run"}.`;
  if (!status) return `${step} has not run.`;
  return runs > 1
    ? `${step} ran ${count(runs)} times; the latest run ${isWord(status)}.`
    : `${step} ${isWord(status)}.`;
}

export function isWord(status: string): string {
  return ["succeeded", "failed"].includes(status) ? status : `is ${statusWord(status)}`;
}

/** Decisions before those that follow the view; they are loaded page by page and dropped with the subject. */
function useOlder(model: RunModel, query: Subject) {
  const [items, next, isBusy] = [useSignal<Decision[]>([]), useSignal<number | null>(null), useSignal(false)];
  const subject = partPath(model, "explain", { ...query });
  useEffect(() => {
    items.value = [];
    next.value = null;
  }, [subject]);
  const load = async (before: number) => {
    isBusy.value = true;
    try {
      const page = await get<Explanation>(model.path("explain"), {
        query: { ...query, at: model.at.peek(), before, limit: 20 },
      });
      items.value = [...items.value, ...page.decisions.toReversed()];
      next.value = page.next;
    } catch (error) {
      toastProblem("The decisions were not loaded", error);
    }
    isBusy.value = false;
  };
  return { items, next, isBusy, load };
}
