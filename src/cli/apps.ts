/** `tollgate apps`: lists all apps with limits, balances and refusals. */
import type { AppsReply } from "../service/operations/contract/contract.js";
import { readChoice } from "./command.js";
import { operatorCommand } from "./control/operator-command.js";
import { ago, amount, counted, readWhole, whole } from "./numbers.js";
import { type Line, type Span, type Style, tableLines, toned } from "./printing.js";
import { type AppNumbers, fetchApps } from "./status/snapshot.js";

/** Sort orders. Unknown values come last. */
const sorts = {
  name: (one: AppNumbers, other: AppNumbers) => one.app_id.localeCompare(other.app_id),
  requests: (one: AppNumbers, other: AppNumbers) => other.requests - one.requests,
  refused: (one: AppNumbers, other: AppNumbers) => other.rejected - one.rejected,
  tokens: (one: AppNumbers, other: AppNumbers) => (one.l2_tokens ?? Infinity) - (other.l2_tokens ?? Infinity),
  debt: (one: AppNumbers, other: AppNumbers) => (other.debt ?? -1) - (one.debt ?? -1),
  priority: (one: AppNumbers, other: AppNumbers) => one.priority - other.priority,
};
type Sort = keyof typeof sorts;
const sortNames = Object.keys(sorts) as Sort[];

const MAX_APPS = 100_000;

const help = `Usage: tollgate apps [--sort ${sortNames.join("|")}] [--limit N]

Lists every app with its limits, the tokens in its bucket, its debt, and its requests and refusals since the service
started.

  --sort   name; requests, refused or debt in descending order; tokens or priority in ascending order (default: requests)
  --limit  maximum number of apps to show (default: 50)

Examples:
  tollgate apps --sort refused --limit 10
  tollgate apps --json | jq -r '.apps[] | select(.debt > 0) | .app_id'
`;

export const command = operatorCommand({
  help,
  options: { sort: { type: "string", default: "requests" }, limit: { type: "string", default: "50" } },
  async run({ client, values, style }) {
    const sort = readChoice("--sort", String(values.sort), sortNames);
    const limit = readWhole("--limit", String(values.limit), { least: 1, most: MAX_APPS });
    const found = await fetchApps(client, MAX_APPS);
    const apps = sortedApps(found.apps, sort).slice(0, limit);
    const reply: AppsReply = { ...found, apps };
    return { reply, lines: () => appsLines(reply, style) };
  },
});

export function sortedApps(apps: AppNumbers[], sort: Sort): AppNumbers[] {
  return [...apps].sort((one, other) => sorts[sort](one, other) || sorts.name(one, other));
}

export function appsLines({ apps, total, cluster, timestamp }: AppsReply, style: Style): Line[] {
  const now = Date.parse(timestamp);
  const columns = [
    { title: "app" },
    { title: "requests", right: true },
    { title: "refused", right: true },
    { title: "tokens", right: true, spare: 2 },
    { title: "burst", right: true, spare: 3 },
    { title: "rate/s", right: true, spare: 4 },
    { title: "debt", right: true, spare: 5 },
    { title: "prio", right: true, spare: 6 },
    { title: "last refusal", spare: 1 },
  ];
  const rows = apps.map((app): Span[] => {
    const { dry_run_rejected: passed, last_refusal: last } = app;
    const refused = app.dry_run ? `(${whole(passed)})` : whole(app.rejected);
    return [
      app.dry_run ? `${app.app_id} (dry run)` : app.app_id,
      whole(app.requests),
      app.rejected > 0 ? toned("warning", refused) : refused,
      known(app.l2_tokens),
      whole(app.burst),
      amount(app.guaranteed),
      app.debt !== null && app.debt > 0 ? toned("warning", known(app.debt)) : known(app.debt),
      String(app.priority),
      last === null ? "" : `${last.code}, ${ago(last.timestamp, now)}`,
    ];
  });
  const foot =
    `cluster: ${known(cluster.tokens)} of ${whole(cluster.capacity)} tokens, ${amount(cluster.rate)}/s; ` +
    `${apps.length < total ? `${whole(apps.length)} of ` : ""}${counted(total, "app")}`;
  return [...tableLines(columns, rows, style), [toned("faint", foot)]];
}

/** Null: the store is unavailable. */
const known = (value: number | null) => (value === null ? "?" : whole(value));
