/** Admin actions. Each one asks for a reason and a confirmation, and appears in the audit log. */
import { useEffect, useState } from "preact/hooks";
import type { SessionReply, State } from "../../../src/service/dashboard/contract.js";
import type { LimitsReply } from "../../../src/service/operations/contract/contract.js";
import { admin } from "../api.js";
import { words } from "../format.js";
import { Badge, Banner, Card, Dialog, Failure, PageHead } from "../parts/parts.js";
import { type Action, amount, type Field, groups } from "./action-list.js";

export function ActionsView({ state, session }: { state: State; session: SessionReply }) {
  const [open, setOpen] = useState<Action | undefined>();
  const [done, setDone] = useState<{ title: string; text: string } | undefined>();
  const { status } = state.overview;
  return (
    <>
      <PageHead title="Actions">
        {status.emergency_mode && <Badge tone="bad">emergency active</Badge>}
        {status.degradation_pinned_until !== null && <Badge tone="warn">level pinned</Badge>}
      </PageHead>
      {!session.can_change && (
        <Banner tone="info" title="Read-only">
          Your token may not change anything.
        </Banner>
      )}
      {done !== undefined && (
        <Banner tone="good" title={done.title}>
          {done.text}
        </Banner>
      )}
      <div class="action-groups">
        {groups.map(({ title, actions }) => (
          <Card key={title} title={title}>
            <ul class="actions">
              {actions.map((action) => (
                <li key={action.id}>
                  <p>
                    <strong>{action.title}</strong>
                    <span>{action.effect}</span>
                  </p>
                  <button
                    type="button"
                    class="secondary"
                    disabled={!session.can_change}
                    aria-label={action.title}
                    onClick={() => setOpen(action)}
                  >
                    {action.button}…
                  </button>
                </li>
              ))}
            </ul>
          </Card>
        ))}
      </div>
      {open !== undefined && (
        <ActionDialog
          action={open}
          apps={state.overview.busiest.map(({ app_id }) => app_id)}
          close={() => setOpen(undefined)}
          done={(text) => {
            setDone({ title: `${open.title}: done`, text });
            setOpen(undefined);
          }}
        />
      )}
    </>
  );
}

interface ActionDialogProps {
  action: Action;
  /** Suggestions. */
  apps: readonly string[];
  close(): void;
  done(text: string): void;
}

interface KnownLimit {
  name: string;
  burst?: number;
}

/** Limits by name, as suggestions; none until they are known. */
function useLimits(isUsed: boolean): KnownLimit[] {
  const [limits, setLimits] = useState<KnownLimit[]>([]);
  useEffect(() => {
    if (!isUsed) return;
    void admin<LimitsReply>("GET", "limits").then((result) => {
      if (!result.ok) return;
      const { limits: rules, descriptors } = result.value;
      setLimits([
        ...rules.map(({ limit, burst }) => ({ name: limit, burst })),
        ...descriptors.map(({ name }) => ({ name })),
      ]);
    });
  }, [isUsed]);
  return limits;
}

function ActionDialog({ action, apps, close, done }: ActionDialogProps) {
  const [failure, setFailure] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [chosen, setChosen] = useState("");
  const limits = useLimits(action.fields.some(({ kind }) => kind === "limit"));
  const burst = limits.find(({ name }) => name === chosen)?.burst;
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const text = (name: string) => String(form.get(name) ?? "").trim();
    const body: Record<string, unknown> = { ...action.fixed, reason: text("reason") };
    for (const { name, kind } of action.fields) {
      if (text(name) === "" || kind === "limit") continue;
      body[name] = kind === "app" || kind === "text" ? text(name) : Number(text(name));
    }
    const path = action.path.replace("{limit}", encodeURIComponent(text("limit")));
    setBusy(true);
    const result = await admin<Record<string, unknown>>(action.method, path, body);
    setBusy(false);
    if (!result.ok) setFailure([result.failure.reason, result.failure.detail].filter((part) => part !== "").join(": "));
    else if (result.value.status === "refused")
      setFailure(String(result.value.explanation ?? words(String(result.value.code))));
    else done(describe(result.value));
  };
  return (
    <Dialog title={action.title} close={close}>
      <p class="quiet">{action.effect}</p>
      <form onSubmit={(event) => void submit(event as unknown as SubmitEvent)}>
        {action.fields.map((field) => (
          <FieldInput
            key={field.name}
            // A whole bucket fits: more than the burst is never added.
            field={
              action.id === "limit-top-up" && field === amount ? { ...field, initial: String(burst ?? "") } : field
            }
            apps={apps}
            limits={limits}
            chosen={setChosen}
          />
        ))}
        <label for="reason">Reason</label>
        <input id="reason" name="reason" required maxLength={200} placeholder="For the audit log" autocomplete="off" />
        <Failure text={failure} />
        <label class="confirm">
          <input type="checkbox" required /> I want to {action.title.charAt(0).toLowerCase() + action.title.slice(1)}{" "}
          now
        </label>
        <div class="dialog-foot">
          <button type="button" class="secondary" onClick={close}>
            Cancel
          </button>
          <button type="submit" class={action.isDangerous === true ? "danger" : "primary"} disabled={isBusy}>
            {isBusy ? "Working…" : action.title}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

interface FieldInputProps {
  field: Field;
  apps: readonly string[];
  limits: readonly KnownLimit[];
  /** Another limit was entered. */
  chosen(limit: string): void;
}

function FieldInput({ field, apps, limits, chosen }: FieldInputProps) {
  const { name, label, kind, initial, choices = [], min, max } = field;
  return (
    <>
      <label for={`field-${name}`}>{label}</label>
      {kind === "choice" ? (
        <select id={`field-${name}`} name={name}>
          {choices.map(([value, text]) => (
            <option key={value} value={value} selected={value === initial}>
              {text}
            </option>
          ))}
        </select>
      ) : kind === "number" ? (
        <input
          key={initial}
          id={`field-${name}`}
          name={name}
          type="number"
          required
          min={min}
          max={max}
          step={1}
          defaultValue={initial}
        />
      ) : kind === "text" ? (
        <input id={`field-${name}`} name={name} required maxLength={2_048} autocomplete="off" />
      ) : (
        <>
          <input
            id={`field-${name}`}
            name={name}
            list={`known-${name}`}
            required={!label.includes("empty")}
            autocomplete="off"
            {...(kind === "limit"
              ? { maxLength: 2_048, onInput: (event) => chosen(event.currentTarget.value.trim()) }
              : { maxLength: 128, pattern: "[A-Za-z0-9._:\\-]+" })}
          />
          <datalist id={`known-${name}`}>
            {(kind === "limit" ? limits.map((limit) => limit.name) : apps).map((known) => (
              <option key={known} value={known} />
            ))}
          </datalist>
        </>
      )}
    </>
  );
}

/** The most important parts of the reply. */
function describe(reply: Record<string, unknown>): string {
  const shown = [
    "explanation",
    "status",
    "expires_at",
    "repaid",
    "added",
    "remaining",
    "apps_affected",
    "limits_affected",
    "corrections_made",
    "recovered_tokens",
    "config_version",
    "level",
  ];
  return shown
    .filter((name) => reply[name] !== undefined && reply[name] !== null)
    .map((name) => (name === "explanation" ? String(reply[name]) : `${words(name)}: ${words(String(reply[name]))}`))
    .filter((text) => text !== "")
    .join(" · ");
}
