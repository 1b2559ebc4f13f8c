import { useSignal } from "@preact/signals";
import { Problem } from "../api/client.ts";
import { Button } from "../parts/button.tsx";
import { TextField } from "../parts/field.tsx";
import { focusFirstField } from "../parts/focus.ts";
import { signIn } from "./session.ts";
import "./sign-in.css";

export function SignInForm() {
  const [name, password, busy, error] = [useSignal(""), useSignal(""), useSignal(false), useSignal("")];
  const submit = async () => {
    busy.value = true;
    error.value = "";
    try {
      await signIn(name.value, password.value);
    } catch (problem) {
      error.value = problem instanceof Problem ? problem.message : String(problem);
    } finally {
      busy.value = false;
    }
  };
  return (
    <form
      ref={focusFirstField}
      class="sign-in-form"
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      <TextField label="Name" value={name} autocomplete="username" />
      <TextField label="Password" password value={password} autocomplete="current-password" />
      {error.value && (
        <p class="field-error" role="alert">
          {error.value}
        </p>
      )}
      <Button kind="primary" type="submit" busy={busy.value}>
        Sign in
      </Button>
    </form>
  );
}
