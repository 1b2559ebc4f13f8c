import { useSignal } from "@preact/signals";
import { TextField } from "../parts/field.tsx";
import { FormDialog } from "../parts/form-dialog.tsx";
import { isZone, zone } from "../preferences.ts";

export default function ZoneDialog({ onClose }: { onClose: () => void }) {
  const name = useSignal(zone.value);
  const wanted = name.value.trim();
  return (
    <FormDialog
      title="Time zone of the page"
      button="Use this zone"
      reason={isZone(wanted) ? null : "There is no time zone of this name."}
      act={() => {
        zone.value = wanted;
      }}
      onClose={onClose}
    >
      <TextField label="Name" help="Such as Europe/Berlin." value={name} />
    </FormDialog>
  );
}
