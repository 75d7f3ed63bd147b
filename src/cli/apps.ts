/** `tollgate apps`: lists all apps with limits, balances and refusals. */
import type { AppsReply, Refusal } from "../service/operations/contract/contract.js";
import { EXIT_OK, readChoice } from "./command.js";
import { operatorCommand } from "./control/operator-command.js";
import { ago, amount, counted, readWhole, whole } from "./numbers.js";
import { escapedData, tableLines, toned } from "./printing.js";
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
started, and then the descriptor limits of \`rate_limits\`. What a dry run admitted is counted as "would refuse", never as refused.

  --sort   name; requests, refused or debt in descending order; tokens or priority in ascending order (default: requests)
  --limit  maximum number of apps to show (default: 50)

Examples:
  tollgate apps --sort refused --limit 10
  tollgate apps --json | jq -r '.apps[] | select(.debt > 0) | .app_id'
`;

export const command = operatorCommand({
  help,
  options: { sort: { type: "string", default: "requests" }, limit: { type: "string", default: "50" } },
  async run({ client, values, columns }) {
    const sort = readChoice("--sort", values.sort, sortNames);
    const limit = readWhole("--limit", values.limit, { least: 1, most: MAX_APPS });
    const found = await fetchApps(client, MAX_APPS);
    const apps = sortedApps(found.apps, sort).slice(0, limit);
    const reply = { ...found, apps };
    return { reply, lines: () => appsLines(escapedData(reply), columns), exitCode: EXIT_OK };
  },
});

export function sortedApps(apps: AppNumbers[], sort: Sort): AppNumbers[] {
  return [...apps].sort((one, other) => sorts[sort](one, other) || sorts.name(one, other));
}

export function appsLines(reply: AppsReply, columns: number): string[] {
  const { apps, total, cluster, timestamp } = reply;
  const hasDryRun = apps.some((app) => app.dry_run_rejected > 0);
  const dryTitle = hasDryRun ? [WOULD_REFUSE] : [];
  const titles = ["app", ">requests", ">refused", ...dryTitle, ">tokens", ">burst", ">rate/s", ">debt", ">prio"];
  const spare = ["prio", "debt", "rate/s", "burst", "tokens", "last refusal"];
  const rows = apps.map((app) => {
    const { name, tokens, burst, debt, lastRefusal } = appCells(app, timestamp);
    return [
      name,
      ...countCells(app, hasDryRun),
      tokens,
      burst,
      amount(app.guaranteed),
      debt,
      String(app.priority),
      lastRefusal,
    ];
  });
  const foot =
    `cluster: ${known(cluster.tokens)} of ${whole(cluster.capacity)} tokens, ${amount(cluster.rate)}/s; ` +
    `${apps.length < total ? `${whole(apps.length)} of ` : ""}${counted(total, "app")}`;
  return [
    ...tableLines([...titles, "last refusal"], rows, columns, { spare }),
    toned("faint", foot),
    ...limitLines(reply, columns),
  ];
}

function limitLines({ descriptor_limits: limits }: AppsReply, columns: number): string[] {
  if (limits.length === 0) return [];
  const hasDryRun = limits.some((one) => one.dry_run_rejected > 0);
  const rows = limits.map((one) => {
    const name = one.dry_run ? `${one.limit} (dry run)` : one.limit;
    return [name, ...countCells(one, hasDryRun), one.rate, whole(one.burst)];
  });
  const counts = [">requests", ">refused", ...(hasDryRun ? [WOULD_REFUSE] : [])];
  return ["", ...tableLines(["descriptor limit", ...counts, ">rate", ">burst"], rows, columns, { spare: ["burst"] })];
}

/** What a dry run admitted. It is never part of the refusals. */
export const WOULD_REFUSE = ">would refuse";

interface Counts {
  requests: number;
  rejected: number;
  dry_run_rejected: number;
}

/** Requests, refusals and, if some row has them, requests that a dry run admitted. */
export function countCells({ requests, rejected, dry_run_rejected: passed }: Counts, hasDryRun: boolean): string[] {
  const refused = rejected > 0 ? toned("warning", whole(rejected)) : whole(rejected);
  return [whole(requests), refused, ...(hasDryRun ? [whole(passed)] : [])];
}

/** Cells that the tables of `tollgate apps` and `tollgate status` have in common. */
export function appCells({ app_id, dry_run, l2_tokens, burst, debt, last_refusal: last }: AppNumbers, now: string) {
  return {
    name: dry_run ? `${app_id} (dry run)` : app_id,
    tokens: known(l2_tokens),
    burst: whole(burst),
    debt: debt !== null && debt > 0 ? toned("warning", whole(debt)) : known(debt),
    lastRefusal: last === null ? "" : `${reasonText(last)}, ${ago(last.timestamp, Date.parse(now))}`,
  };
}

/** The code, the limit that refused unless it was the app's own, and whether a dry run admitted the request. */
export function reasonText({ code, limit_name, dry_run }: Pick<Refusal, "code" | "limit_name" | "dry_run">): string {
  const by = limit_name === undefined ? "" : ` by ${limit_name}`;
  return dry_run ? `would refuse: ${code}${by}` : `${code}${by}`;
}

/** Null: the store is unavailable. */
const known = (value: number | null) => (value === null ? "?" : whole(value));
