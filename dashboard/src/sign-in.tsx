/** Sign-in with an operator's token. The token is sent once and not stored in the browser. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { SessionReply } from "../../src/service/dashboard/contract.js";
import { type Failure, signIn } from "./api.js";
import { Logo } from "./app.js";

export function SignIn({ notice, signedIn }: { notice: string; signedIn(session: SessionReply): void }) {
  const [failure, setFailure] = useState<Failure | undefined>();
  const [isBusy, setBusy] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    document.title = "Sign in · Tollgate";
    input.current?.focus();
  }, []);
  const submit = async (event: Event) => {
    event.preventDefault();
    const token = input.current?.value.trim() ?? "";
    if (token === "" || isBusy) return;
    setBusy(true);
    const result = await signIn(token);
    setBusy(false);
    if (result.ok) signedIn(result.value);
    else setFailure(result.failure);
  };
  return (
    <main class="sign-in">
      <form class="card" onSubmit={(event) => void submit(event)}>
        <Logo />
        <h1>Tollgate</h1>
        {notice !== "" && failure === undefined && <p class="form-notice">{notice}</p>}
        <label for="token">Operator token</label>
        <input
          id="token"
          ref={input}
          type="password"
          autocomplete="current-password"
          spellcheck={false}
          aria-invalid={failure !== undefined}
          aria-describedby="token-help"
        />
        <p
          id="token-help"
          class={failure === undefined ? "form-help" : "form-error"}
          role={failure === undefined ? undefined : "alert"}
        >
          {failure === undefined
            ? "The bearer token that you use for the admin API and the command line."
            : explain(failure)}
        </p>
        <button type="submit" class="primary" disabled={isBusy}>
          {isBusy ? "Signing in…" : "Sign in"}
        </button>
      </form>
    </main>
  );
}

function explain({ status, reason, detail }: Failure): string {
  if (reason === "wrong_token") return "This token is not valid.";
  if (reason === "wrong_role") return "This is a token of data planes, not of an operator.";
  if (reason === "failed_logins") return "Too many wrong tokens from this address. Try again in a minute.";
  if (reason === "admin_disabled") return "Signing in is disabled: the configuration has no operator token.";
  if (status === 0) return "The service does not answer.";
  return detail === "" ? reason : detail;
}
