/** The state of a service at one time, and the rates between two snapshots. */
import * as contract from "../../service/operations/contract/contract.js";
import type { ControlClient } from "../control/client.js";

export type AppNumbers = contract.AppsReply["apps"][number];

export interface Snapshot {
  status: contract.StatusReply;
  apps: AppNumbers[];
  /** May exceed the number of fetched apps. */
  appsTotal: number;
}

const PAGE = 500;

/** Fetches up to `most` apps, page by page. */
export async function fetchApps(client: ControlClient, most: number): Promise<contract.AppsReply> {
  const fetchPage = (offset: number) =>
    client.call({
      path: `/admin/ratelimit/apps?offset=${offset}&limit=${Math.min(PAGE, most - offset)}`,
      reply: contract.appsReply,
    });
  const first = await fetchPage(0);
  const apps = new Map(first.apps.map((app) => [app.app_id, app]));
  let page = first;
  for (let offset = PAGE; offset < Math.min(first.total, most) && page.apps.length > 0; offset += PAGE) {
    page = await fetchPage(offset);
    // A reload may move an app to another page.
    for (const app of page.apps) apps.set(app.app_id, app);
  }
  return { ...page, apps: [...apps.values()] };
}

/** Limits the cost of a live view of a large service. */
const MAX_WATCHED = 2_000;

export async function takeSnapshot(client: ControlClient): Promise<Snapshot> {
  const [status, { apps, total }] = await Promise.all([
    client.call({ path: "/admin/ratelimit/status", reply: contract.statusReply }),
    fetchApps(client, MAX_WATCHED),
  ]);
  return { status, apps, appsTotal: total };
}

/** Values per second since the last snapshot, or since the start of the service if this is the first one or the service restarted. */
export function ratesOf(before: Snapshot | undefined, now: Snapshot) {
  const earlier = before !== undefined && isContinued(before.status, now.status) ? before : undefined;
  const [after, until] = [now.status.statistics, now.status];
  const since = earlier?.status.statistics;
  const seconds = earlier === undefined ? until.uptime_seconds : (timeOf(until) - timeOf(earlier.status)) / 1000;
  // A sum can decrease when a worker is replaced.
  const rate = (to: number, from = 0) => Math.max(to - from, 0) / Math.max(seconds, 0.001);
  const decided = after.total_requests - (since?.total_requests ?? 0);
  const mean = (of: (statistics: contract.StatusReply["statistics"]) => number) => {
    if (decided <= 0) return undefined;
    const total = of(after) * after.total_requests - (since === undefined ? 0 : of(since) * since.total_requests);
    return Math.max(total / decided, 0);
  };
  const hitRatio = mean((statistics) => statistics.l3_hit_ratio);
  const known = new Map(earlier?.apps.map((app) => [app.app_id, app]));
  return {
    /** False: means since the start of the service. */
    isRecent: earlier !== undefined,
    requests: rate(after.total_requests, since?.total_requests),
    allowed: rate(after.allowed_requests, since?.allowed_requests),
    refused: rate(after.rejected_requests, since?.rejected_requests),
    dryRunRefused: rate(after.dry_run_rejected, since?.dry_run_rejected),
    syncs: rate(after.syncs, since?.syncs),
    /** Undefined if nothing was decided, like the latency. */
    hitRatio: hitRatio === undefined ? undefined : Math.min(hitRatio, 1),
    latencyMs: mean((statistics) => statistics.avg_latency_ms),
    apps: new Map(
      now.apps.map(({ app_id, requests, rejected, dry_run_rejected }) => {
        const old = known.get(app_id);
        const rates = {
          requests: rate(requests, old?.requests),
          refused: rate(rejected, old?.rejected),
          dryRunRefused: rate(dry_run_rejected, old?.dry_run_rejected),
        };
        return [app_id, rates];
      }),
    ),
  };
}

export type Rates = ReturnType<typeof ratesOf>;

const timeOf = ({ timestamp }: contract.StatusReply) => Date.parse(timestamp);

function isContinued(before: contract.StatusReply, now: contract.StatusReply): boolean {
  const isSame = before.node_id === now.node_id && now.uptime_seconds >= before.uptime_seconds;
  return isSame && timeOf(now) > timeOf(before);
}

/** Sorted by request rate, then by refusals. */
export function busiest(snapshot: Snapshot, rates: Rates): AppNumbers[] {
  const of = ({ app_id }: AppNumbers) => rates.apps.get(app_id) ?? { requests: 0, refused: 0 };
  return [...snapshot.apps].sort(
    (one, other) =>
      of(other).requests - of(one).requests ||
      of(other).refused - of(one).refused ||
      other.requests - one.requests ||
      one.app_id.localeCompare(other.app_id),
  );
}
