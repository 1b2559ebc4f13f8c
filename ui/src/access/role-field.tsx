import type { Role } from "../me.ts";
import { Field } from "../parts/field.tsx";

export function RoleField({
  value,
  roles,
  onChange,
}: {
  value: Role;
  roles: readonly Role[];
  onChange: (role: Role) => void;
}) {
  return (
    <Field label="Role">
      {(ids) => (
        <select {...ids} class="input" value={value} onChange={(event) => onChange(event.currentTarget.value as Role)}>
          {roles.map((role) => (
            <option key={role} value={role}>
              {role}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}
