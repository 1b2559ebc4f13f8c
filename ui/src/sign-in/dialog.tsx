import { useEffect, useRef } from "preact/hooks";
import { rememberFocus } from "../parts/focus.ts";
import { SignInForm } from "./form.tsx";

/** Opens over the current view after a 401: nothing that the user typed is lost, and the request is repeated. */
export function SignInDialog() {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const giveBack = rememberFocus();
    element.current?.showModal();
    return giveBack;
  }, []);
  return (
    <dialog
      ref={element}
      class="dialog sign-in-dialog"
      aria-label="Sign in"
      onCancel={(event) => event.preventDefault()}
    >
      <h2>Sign in to noetl</h2>
      <SignInForm />
    </dialog>
  );
}
