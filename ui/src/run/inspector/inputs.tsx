import { useSignal } from "@preact/signals";
import { useResource } from "../../api/resource.ts";
import type { Explanation, StepRun } from "../../api/types.gen.ts";
import { Select } from "../../parts/field.tsx";
import { Empty, Loaded } from "../../parts/states.tsx";
import { Value } from "../../parts/value.tsx";
import { count } from "../../text/number.ts";
import type { RunModel } from "../model.ts";
import { partPath } from "./following.tsx";

/** The inputs of a task. The log does not have them: the server renders them again. */
export function Inputs({ model, data }: { model: RunModel; data: StepRun }) {
  const attempts = data.tasks
    .flatMap((visit) => visit.attempts.map((attempt) => ({ ...attempt, label: visit.label })))
    .filter(({ seq }) => seq <= model.at.value);
  const chosen = useSignal(0);
  const seq = attempts.find((attempt) => attempt.seq === chosen.value)?.seq ?? attempts.at(-1)?.seq ?? 0;
  return (
    <div class="padded">
      {Object.keys(data.args).length > 0 && (
        <section>
          <h3>Arguments of {data.run}</h3>
          <Value value={data.args} label={`Arguments of ${data.run}`} prefix="args" />
        </section>
      )}
      {attempts.length > 1 && (
        <Select
          label="Attempt"
          value={String(seq)}
          options={attempts.map((attempt) => ({
            value: String(attempt.seq),
            label: `${attempt.label}, attempt ${attempt.attempt}, event ${count(attempt.seq)}`,
          }))}
          onChange={(value) => {
            chosen.value = Number(value);
          }}
        />
      )}
      {seq ? (
        <Rendered model={model} seq={seq} />
      ) : (
        <Empty text="No task has ended yet, so there are no inputs to show." />
      )}
    </div>
  );
}

function Rendered({ model, seq }: { model: RunModel; seq: number }) {
  const explanation = useResource<Explanation>(partPath(model, "explain", { seq }));
  return (
    <Loaded of={explanation} rows={3}>
      {({ decisions }) => {
        const inputs = decisions[0]?.inputs;
        if (!inputs) return <p class="quiet">This event has no inputs.</p>;
        return (
          <section>
            <h3>Inputs of {decisions[0]?.about}</h3>
            <p class="quiet">Rendered again from the state at event {count(seq)}.</p>
            <Value value={inputs} label={`Inputs at event ${seq}`} prefix="" />
          </section>
        );
      }}
    </Loaded>
  );
}
