/** The dashboard: its files, sessions, and live data as server-sent events. */
import * as z from "zod";
import { type Clock, systemClock } from "../../shared/clock.js";
import type { NodeReport } from "../metrics/reports.js";
import type { ServiceMetrics } from "../metrics/service-metrics.js";
import type { OperationsContext } from "../operations/context.js";
import { type Call, type Endpoint, endpoint, ok, problem } from "../operations/endpoint.js";
import { createActivity } from "./activity.js";
import { createFeed } from "./feed.js";
import { fileEndpoints } from "./files.js";
import { createHistory } from "./history.js";
import type { Reading } from "./meter.js";
import { createSessions } from "./sessions.js";
import { createViews } from "./views.js";

export interface DashboardOptions {
  context: OperationsContext;
  /** Store calls and refused connections of the primary. */
  primaryTotals: ServiceMetrics["totals"];
  clusterId: string;
  sessionSeconds(): number;
  isSecure(): boolean;
  clock?: Clock;
}

const sessionReply = z.strictObject({
  operator: z.string(),
  can_change: z.boolean().describe("False: the operator may only read."),
  node_id: z.string(),
  version: z.string(),
});

const views = /^(overview|flow|apps|connections|nodes|config|app\/[A-Za-z0-9._:-]{1,128})$/;

const eventsQuery = z.strictObject({
  view: z.string().regex(views, "must be the name of a view").default("overview").describe("The open view."),
});

export function createDashboard(options: DashboardOptions) {
  const { context, clock = systemClock } = options;
  const sessions = createSessions({
    clock,
    lifetimeMs: () => options.sessionSeconds() * 1000,
    isSecure: options.isSecure,
  });
  const reading = (workers: readonly NodeReport[]): Reading => ({
    atMs: clock.now(),
    workers,
    planes: context.planes.totals.all(),
    primary: options.primaryTotals(),
  });
  const activity = createActivity(context.planes.totals);
  const { collect, l1Tokens } = createViews({ context, activity, reading, clusterId: options.clusterId });
  const history = createHistory({ context, activity, clock, reading, l1Tokens });
  const feed = createFeed({ clock, collect });

  const session = ({ operator, access }: Pick<Call, "operator" | "access">) => ({
    operator,
    can_change: access.mayChange,
    node_id: context.node,
    version: context.version,
  });

  const endpoints: Endpoint[] = [
    ...fileEndpoints(),

    endpoint("POST", "/dashboard/session", "viewer", {
      hidden: true,
      summary: "Signs in to the dashboard with the token in the Authorization header; the reply sets a session cookie.",
      action: "dashboard.login",
      reply: sessionReply,
      handle: (call) => ok(session(call), { headers: { "Set-Cookie": sessions.start(call.access.token) } }),
    }),

    endpoint("GET", "/dashboard/session", "viewer", {
      hidden: true,
      summary: "Who is signed in.",
      reply: sessionReply,
      handle: (call) => ok(session(call)),
    }),

    endpoint("DELETE", "/dashboard/session", "viewer", {
      hidden: true,
      summary: "Signs out: ends the sessions of this token.",
      action: "dashboard.logout",
      reply: sessionReply,
      handle: (call) => ok(session(call), { headers: { "Set-Cookie": sessions.end(call.access.token) } }),
    }),

    endpoint("GET", "/dashboard/events", "viewer", {
      hidden: true,
      summary: "Live data of a view as server-sent events: the last 15 minutes, then one message per second.",
      query: eventsQuery,
      reply: { text: "text/event-stream" },
      others: { 503: { summary: "Too many viewers." } },
      handle({ query: { view }, access }) {
        const { token: owner, mayChange: isOperator, isCurrent: isAllowed } = access;
        const watched = feed.watch({ view, owner, isOperator, isAllowed, first: history.list(view) });
        if (watched === undefined) return problem(503, "unavailable", "too_many_viewers");
        return ok(watched.events, { mediaType: "text/event-stream", gone: watched.gone });
      },
    }),
  ];

  return {
    endpoints,
    sessionToken: sessions.tokenOf,
    viewers: feed.viewers,
    close(): void {
      feed.close();
      history.close();
    },
  };
}
