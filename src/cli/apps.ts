/** `tollgate apps`: all apps with their limits, balances and refusals, sorted as asked. */
import { quoted } from "../config/problem.js";
import type { AppsReply } from "../service/operations/contract/contract.js";
import { UsageError } from "./command.js";
import { expectWords, operatorCommand } from "./control/operator-command.js";
import { ago, amount, counted, readWhole, whole } from "./numbers.js";
import { type Line, type Span, type Style, tableLines, toned } from "./printing.js";
import { type AppNumbers, fetchApps } from "./status/look.js";

/** Names by name; numbers with the largest first. What the store does not know comes last. */
const sorts = {
  name: (one: AppNumbers, other: AppNumbers) => one.app_id.localeCompare(other.app_id),
  requests: (one: AppNumbers, other: AppNumbers) => other.requests - one.requests,
  refused: (one: AppNumbers, other: AppNumbers) => other.rejected - one.rejected,
  tokens: (one: AppNumbers, other: AppNumbers) => (one.l2_tokens ?? Infinity) - (other.l2_tokens ?? Infinity),
  debt: (one: AppNumbers, other: AppNumbers) => (other.debt ?? -1) - (one.debt ?? -1),
  priority: (one: AppNumbers, other: AppNumbers) => one.priority - other.priority,
};
type Sort = keyof typeof sorts;

const MOST_APPS = 100_000;

const help = `Usage: tollgate apps [--sort ${Object.keys(sorts).join("|")}] [--limit N]

Every app with its limits, the tokens in its bucket, its debt, and what its requests met with since the service began.

  --sort   by name; or requests, refused, debt: the most first; or tokens, priority: the least first (default: requests)
  --limit  show at most so many (default: 50)

Examples:
  tollgate apps --sort refused --limit 10
  tollgate apps --json | jq -r '.apps[] | select(.debt > 0) | .app_id'
`;

export const appsCommand = operatorCommand({
  name: "apps",
  summary: "All apps: limits, tokens left, requests, refusals",
  help,
  options: { sort: { type: "string", default: "requests" }, limit: { type: "string", default: "50" } },
  async run({ client, words, values, style }) {
    expectWords(words, []);
    const sort = readSort(String(values.sort));
    const limit = readWhole("--limit", String(values.limit), { least: 1, most: MOST_APPS });
    const found = await fetchApps(client, MOST_APPS);
    const apps = sortedApps(found.apps, sort).slice(0, limit);
    const reply: AppsReply = { ...found, apps };
    return { reply, lines: () => appsLines(reply, style) };
  },
});

function readSort(name: string): Sort {
  if (Object.hasOwn(sorts, name)) return name as Sort;
  throw new UsageError(`--sort: there is no ${quoted(name)}; there are ${Object.keys(sorts).join(", ")}`);
}

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

/** Null: the store does not answer. */
const known = (value: number | null) => (value === null ? "?" : whole(value));
