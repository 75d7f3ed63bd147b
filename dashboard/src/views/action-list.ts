/** The admin actions that the dashboard offers, with the fields that each one asks for. */

export interface Field {
  name: string;
  label: string;
  kind: "app" | "limit" | "text" | "number" | "choice";
  initial: string;
  choices?: readonly (readonly [value: string, label: string])[];
  min?: number;
  max?: number;
}

export interface Action {
  id: string;
  title: string;
  /** On the button that opens the dialog. */
  button: string;
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
export const amount: Field = {
  name: "amount",
  label: "Tokens",
  kind: "number",
  initial: "100",
  min: 1,
  max: 1_000_000_000,
};

export const groups: readonly { title: string; actions: readonly Action[] }[] = [
  {
    title: "Emergency",
    actions: [
      {
        id: "emergency-on",
        title: "Start an emergency",
        button: "Start",
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
        button: "End",
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
        button: "Pin",
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
        button: "Unpin",
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
        button: "Borrow",
        effect: "Lends idle tokens of the cluster to an app, for 120 % debt. All or nothing.",
        method: "POST",
        path: "borrow",
        fields: [app, amount],
      },
      {
        id: "repay",
        title: "Repay",
        button: "Repay",
        effect: "Repays an app's debt from its bucket, as far as both allow.",
        method: "POST",
        path: "repay",
        fields: [app, amount],
      },
      {
        id: "reconcile",
        title: "Reconcile",
        button: "Reconcile",
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
        button: "Reset",
        effect: "Fills the bucket that a limit has for one value, for example for one user.",
        method: "POST",
        path: "limits/{limit}/reset",
        fields: [limit, value],
      },
      {
        id: "limit-top-up",
        title: "Top up a value",
        button: "Top up",
        effect: "Adds tokens to the bucket of one value, up to its burst. Tokens on leases of nodes count towards it.",
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
        button: "Reload",
        effect: "Reads the file and the store layer again. An invalid configuration changes nothing.",
        method: "POST",
        path: "reload",
        fields: [],
      },
    ],
  },
];
