/** One look at a service, and what happened between two of them. */

import type { AppsReply, StatusReply } from "../../service/operations/contract/contract.js";
import * as contract from "../../service/operations/contract/contract.js";
import type { ControlClient } from "../control/client.js";

export type AppNumbers = AppsReply["apps"][number];

export interface Look {
  status: StatusReply;
  apps: AppNumbers[];
  /** There may be more than were fetched. */
  appsTotal: number;
}

const PAGE = 500;

/** The first `most` apps in the service's own order; all of them where there are no more. */
export async function fetchApps(client: ControlClient, most: number): Promise<AppsReply> {
  const fetchPage = (offset: number) =>
    client.call({
      method: "GET",
      path: `/admin/ratelimit/apps?offset=${offset}&limit=${Math.min(PAGE, most - offset)}`,
      reply: contract.appsReply,
    });
  const first = await fetchPage(0);
  const apps = new Map(first.apps.map((app) => [app.app_id, app]));
  let page = first;
  for (let offset = PAGE; offset < Math.min(first.total, most) && page.apps.length > 0; offset += PAGE) {
    page = await fetchPage(offset);
    // A reload in between may have moved an app to another page.
    for (const app of page.apps) apps.set(app.app_id, app);
  }
  return { ...page, apps: [...apps.values()] };
}

export async function fetchStatus(client: ControlClient): Promise<StatusReply> {
  return client.call({ method: "GET", path: "/admin/ratelimit/status", reply: contract.statusReply });
}

/** A screen that is drawn every other second must not cost a large service much. */
const MOST_WATCHED = 2_000;

export async function takeLook(client: ControlClient): Promise<Look> {
  const [status, { apps, total }] = await Promise.all([fetchStatus(client), fetchApps(client, MOST_WATCHED)]);
  return { status, apps, appsTotal: total };
}

/** Everything per second. */
export interface Pace {
  /** False: these are means since the service began, as there is only one look. */
  isRecent: boolean;
  requests: number;
  allowed: number;
  refused: number;
  dryRunRefused: number;
  syncs: number;
  failedSyncs: number;
  /** Undefined where nothing was decided. */
  hitRatio: number | undefined;
  latencyMs: number | undefined;
  apps: Map<string, { requests: number; refused: number }>;
}

/** From the last look to this one; where there is none, or the service began anew in between, from its beginning. */
export function paceOf(before: Look | undefined, now: Look): Pace {
  const earlier = before !== undefined && isContinued(before.status, now.status) ? before : undefined;
  const [after, until] = [now.status.statistics, now.status];
  const since = earlier?.status.statistics;
  const seconds = earlier === undefined ? until.uptime_seconds : (timeOf(until) - timeOf(earlier.status)) / 1000;
  // A worker that was replaced takes its counts along, so a sum may fall.
  const rate = (to: number, from = 0) => Math.max(to - from, 0) / Math.max(seconds, 0.001);
  const decided = after.total_requests - (since?.total_requests ?? 0);
  const mean = (of: (statistics: StatusReply["statistics"]) => number) => {
    if (decided <= 0) return undefined;
    const total = of(after) * after.total_requests - (since === undefined ? 0 : of(since) * since.total_requests);
    return Math.max(total / decided, 0);
  };
  const hitRatio = mean((statistics) => statistics.l3_hit_ratio);
  const known = new Map(earlier?.apps.map((app) => [app.app_id, app]));
  return {
    isRecent: earlier !== undefined,
    requests: rate(after.total_requests, since?.total_requests),
    allowed: rate(after.allowed_requests, since?.allowed_requests),
    refused: rate(after.rejected_requests, since?.rejected_requests),
    dryRunRefused: rate(after.dry_run_rejected, since?.dry_run_rejected),
    syncs: rate(after.syncs, since?.syncs),
    failedSyncs: rate(after.failed_syncs, since?.failed_syncs),
    hitRatio: hitRatio === undefined ? undefined : Math.min(hitRatio, 1),
    latencyMs: mean((statistics) => statistics.avg_latency_ms),
    apps: new Map(
      now.apps.map(({ app_id, requests, rejected }) => {
        const old = known.get(app_id);
        // An app that was not there before began with nothing.
        return [app_id, { requests: rate(requests, old?.requests), refused: rate(rejected, old?.rejected) }];
      }),
    ),
  };
}

const timeOf = ({ timestamp }: StatusReply) => Date.parse(timestamp);

function isContinued(before: StatusReply, now: StatusReply): boolean {
  const isSame = before.node_id === now.node_id && now.uptime_seconds >= before.uptime_seconds;
  return isSame && timeOf(now) > timeOf(before);
}

/** The most requests first; of those alike, the most refusals. */
export function busiest(look: Look, pace: Pace): AppNumbers[] {
  const of = ({ app_id }: AppNumbers) => pace.apps.get(app_id) ?? { requests: 0, refused: 0 };
  return [...look.apps].sort(
    (one, other) =>
      of(other).requests - of(one).requests ||
      of(other).refused - of(one).refused ||
      other.requests - one.requests ||
      one.app_id.localeCompare(other.app_id),
  );
}
