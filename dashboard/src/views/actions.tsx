/** Admin actions. Each one asks for a reason and a confirmation, and appears in the audit log. */
import { useState } from "preact/hooks";
import type { SessionReply, State } from "../../../src/service/dashboard/contract.js";
import { admin } from "../api.js";
import { words } from "../format.js";
import { Badge, Banner, Card, Dialog, PageHead } from "../parts/parts.js";

interface Field {
  name: string;
  label: string;
  kind: "app" | "limit" | "text" | "number" | "choice";
  initial: string;
  choices?: readonly (readonly [value: string, label: string])[];
  min?: number;
  max?: number;
}

interface Action {
  id: string;
  title: string;
  /** What it does and to whom. */
  effect: string;
  isDangerous?: boolean;
  method: "POST" | "DELETE";
  /** `{limit}` is replaced by the field of this name. */
  path: string;
  fields: readonly Field[];
  /** Further fields of the request. */
  fixed?: Record<string, unknown>;
}

const durations = [
  ["300", "5 minutes"],
  ["600", "10 minutes"],
  ["1800", "30 minutes"],
  ["3600", "1 hour"],
] as const;
const duration: Field = {
  name: "duration_seconds",
  label: "Duration",
  kind: "choice",
  initial: "600",
  choices: durations,
};
const app: Field = { name: "app_id", label: "App", kind: "app", initial: "" };
const limit: Field = { name: "limit", label: "Limit", kind: "limit", initial: "" };
const value: Field = {
  name: "value",
  label: "Value (parts of the key, separated by commas)",
  kind: "text",
  initial: "",
};
const amount: Field = { name: "amount", label: "Tokens", kind: "number", initial: "100", min: 1, max: 1_000_000_000 };

const groups: readonly { title: string; actions: readonly Action[] }[] = [
  {
    title: "Emergency",
    actions: [
      {
        id: "emergency-on",
        title: "Start an emergency",
        effect:
          "All nodes of the cluster reduce limits by priority within a second: 0 keeps 100 %, 1 keeps 50 %, 2 keeps 10 %, 3 and above are blocked.",
        isDangerous: true,
        method: "POST",
        path: "emergency",
        fields: [duration],
        fixed: { action: "activate" },
      },
      {
        id: "emergency-off",
        title: "End the emergency",
        effect: "All apps get their full limits again. If usage is still high, an automatic emergency may start.",
        method: "POST",
        path: "emergency",
        fields: [],
        fixed: { action: "deactivate" },
      },
    ],
  },
  {
    title: "Degradation level",
    actions: [
      {
        id: "pin",
        title: "Pin the level",
        effect: "This service, its workers and its data planes behave as if the store had this level.",
        isDangerous: true,
        method: "POST",
        path: "degradation",
        fields: [
          {
            name: "level",
            label: "Level",
            kind: "choice",
            initial: "0",
            choices: [
              ["0", "0: store healthy"],
              ["1", "1: store slow"],
              ["2", "2: do not wait for the store"],
              ["3", "3: decide without the store"],
            ],
          },
          duration,
        ],
      },
      {
        id: "unpin",
        title: "Unpin the level",
        effect: "The level follows the health of the store again.",
        method: "DELETE",
        path: "degradation",
        fields: [],
      },
    ],
  },
  {
    title: "Tokens of an app",
    actions: [
      {
        id: "borrow",
        title: "Borrow",
        effect: "Lends idle tokens of the cluster to an app, for 120 % debt. All or nothing.",
        method: "POST",
        path: "borrow",
        fields: [app, amount],
      },
      {
        id: "repay",
        title: "Repay",
        effect: "Repays an app's debt from its bucket, as far as both allow.",
        method: "POST",
        path: "repay",
        fields: [app, amount],
      },
      {
        id: "reconcile",
        title: "Reconcile",
        effect:
          "Corrects the bucket of an app by the counters of all nodes, and returns the tokens of dead nodes. Without an app: all apps.",
        method: "POST",
        path: "reconcile",
        fields: [{ ...app, label: "App (empty: all)" }],
        fixed: { force: true },
      },
    ],
  },
  {
    title: "Limits",
    actions: [
      {
        id: "limit-reset",
        title: "Reset a value",
        effect: "Fills the bucket that a limit has for one value, for example for one user.",
        method: "POST",
        path: "limits/{limit}/reset",
        fields: [limit, value],
      },
      {
        id: "limit-top-up",
        title: "Top up a value",
        effect: "Adds tokens to the bucket of one value, up to its burst.",
        method: "POST",
        path: "limits/{limit}/top-up",
        fields: [limit, value, amount],
      },
    ],
  },
  {
    title: "Configuration",
    actions: [
      {
        id: "reload",
        title: "Reload",
        effect: "Reads the file and the store layer again. An invalid configuration changes nothing.",
        method: "POST",
        path: "reload",
        fields: [],
      },
    ],
  },
];

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
                    {action.title.split(" ")[0]}…
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

function ActionDialog({ action, apps, close, done }: ActionDialogProps) {
  const [failure, setFailure] = useState("");
  const [isBusy, setBusy] = useState(false);
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
          <FieldInput key={field.name} field={field} apps={apps} />
        ))}
        <label for="reason">Reason</label>
        <input id="reason" name="reason" required maxLength={200} placeholder="For the audit log" autocomplete="off" />
        {failure !== "" && (
          <p class="form-error" role="alert">
            {failure}
          </p>
        )}
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

function FieldInput({ field, apps }: { field: Field; apps: readonly string[] }) {
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
          id={`field-${name}`}
          name={name}
          type="number"
          required
          min={min}
          max={max}
          step={1}
          defaultValue={initial}
        />
      ) : kind === "text" || kind === "limit" ? (
        <input id={`field-${name}`} name={name} required maxLength={2_048} autocomplete="off" />
      ) : (
        <>
          <input
            id={`field-${name}`}
            name={name}
            list="known-apps"
            required={!label.includes("empty")}
            maxLength={128}
            pattern="[A-Za-z0-9._:\-]+"
            autocomplete="off"
          />
          <datalist id="known-apps">
            {apps.map((id) => (
              <option key={id} value={id} />
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
    "corrections_made",
    "recovered_tokens",
    "config_version",
    "level",
  ];
  return shown
    .filter((name) => reply[name] !== undefined && reply[name] !== null)
    .map((name) => (name === "explanation" ? String(reply[name]) : `${words(name)}: ${words(String(reply[name]))}`))
    .join(" · ");
}
