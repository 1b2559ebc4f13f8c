import { useSignal } from "@preact/signals";
import { count } from "../../text/number.ts";

/** The number of the event, to type another one. */
export function EventField({
  here,
  latest,
  onChoose,
}: {
  here: number;
  latest: number;
  onChoose: (seq: number) => void;
}) {
  const draft = useSignal<string | null>(null);
  const choose = () => {
    const digits = draft.peek()?.replace(/\D/g, "");
    draft.value = null;
    if (digits) onChoose(Number(digits));
  };
  return (
    <input
      class="input mono history-field"
      aria-label="Event number"
      inputMode="numeric"
      autocomplete="off"
      style={{ width: `${count(latest).length + 3}ch` }}
      value={draft.value ?? count(here)}
      onFocus={(event) => event.currentTarget.select()}
      onInput={(event) => {
        draft.value = event.currentTarget.value;
      }}
      onBlur={choose}
      onKeyDown={(event) => {
        if (event.key === "Escape") draft.value = null;
        if (event.key === "Enter" || event.key === "Escape") event.currentTarget.blur();
      }}
    />
  );
}
