import { useEffect } from "preact/hooks";
import { go, parameter } from "../location.ts";
import { me } from "../me.ts";
import { safeNext } from "../routes.ts";
import { SignInForm } from "./form.tsx";

export default function SignInPage() {
  const next = safeNext(parameter("next"));
  useEffect(() => {
    if (me.value) go(next, { replace: true });
  }, [me.value, next]);
  return (
    <div class="sign-in card">
      <h1>noetl</h1>
      <SignInForm />
    </div>
  );
}
