import { useState } from "preact/hooks";
import { count } from "../text/number.ts";

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
  const [draft, setDraft] = useState<string | null>(null);
  const choose = () => {
    const digits = draft?.replace(/\D/g, "");
    setDraft(null);
    if (digits) onChoose(Number(digits));
  };
  return (
    <input
      class="input mono history-field"
      aria-label="Event number"
      inputMode="numeric"
      autocomplete="off"
      style={{ width: `${count(latest).length + 3}ch` }}
      value={draft ?? count(here)}
      onFocus={(event) => event.currentTarget.select()}
      onInput={(event) => setDraft(event.currentTarget.value)}
      onBlur={choose}
      onKeyDown={(event) => {
        if (event.key === "Enter") choose();
        if (event.key !== "Escape") return;
        setDraft(null);
        event.currentTarget.blur();
      }}
    />
  );
}
