/** Alert rules. Each has a section of its name in docs/MONITORING.md. */
import {
  SLOT_APP_LIMIT_EXCEEDED,
  SLOT_LIMIT_EXCEEDED,
  SLOT_RATE_LIMITED,
  SLOT_TOTAL_LIMIT_EXCEEDED,
} from "../../src/core/codes.js";
import { createQueries, NGINX_JOB, SERVICE_JOB } from "./queries.js";
import { recorded } from "./recording-rules.js";
import { DAY, type Duration, duration, HOUR, MINUTE, type RuleGroup } from "./rules.js";

/** critical: act now, clients are affected or soon will be. warning: look at it today. */
type Severity = "critical" | "warning";

interface Alert {
  expr: string;
  /** In seconds. */
  for: number;
  severity: Severity;
  /** May contain templates of Prometheus. */
  summary: string;
  description: string;
}

export type AlertName = keyof ReturnType<typeof alerts>;

const PAGE = "https://github.com/tollgate/tollgate/blob/main/docs/MONITORING.md";
export const runbookOf = (alert: string) => `${PAGE}#${alert.toLowerCase()}`;

const CONNECTION_LIMITS = [
  SLOT_LIMIT_EXCEEDED,
  SLOT_TOTAL_LIMIT_EXCEEDED,
  SLOT_APP_LIMIT_EXCEEDED,
  SLOT_RATE_LIMITED,
].join("|");

export function alerts(time: Duration) {
  const { rate, increase, max, min, sum, highest, distinct } = createQueries({
    window: time(5 * MINUTE),
    by: ["cluster"],
  });
  const ratio = recorded.refusalRatio;
  const usual = `avg_over_time(${ratio}[${time(DAY)}] offset ${time(15 * MINUTE)})`;
  const expiry = min("ratelimit_certificate_expiry_timestamp_seconds", { by: ["instance", "section"] });
  return {
    TollgateRefusalsUnusual: {
      expr: `(${ratio} > 0.5 or (${ratio} > 0.05 and ${ratio} > 3 * ${usual})) and ${recorded.requests} > 1`,
      for: 10 * MINUTE,
      severity: "warning",
      summary: "{{ $value | humanizePercentage }} of all requests are refused",
      description: "More than half, or more than three times the mean of the last day.",
    },
    TollgateDegraded: {
      expr: `${max("ratelimit_degradation_level", { by: ["node_id"] })} >= 2`,
      for: 2 * MINUTE,
      severity: "warning",
      summary: "{{ $labels.node_id }} is at degradation level {{ $value }}: the store is very slow or fails",
      description: "Requests no longer wait for the store. Leases are larger, so limits are less precise.",
    },
    TollgateStoreUnavailable: {
      expr: `${max("ratelimit_degradation_level")} >= 3`,
      for: MINUTE,
      severity: "critical",
      summary: "Nodes decide without the store",
      description: "Each app follows its on_store_failure: the limits of nodes add up, or requests get 503.",
    },
    TollgateStoreErrors: {
      expr: `${recorded.storeErrorRatio} > 0.01`,
      for: 5 * MINUTE,
      severity: "warning",
      summary: "{{ $value | humanizePercentage }} of all store calls fail",
      description: "ratelimit_store_errors_total has the kinds of errors.",
    },
    TollgateEmergency: {
      expr: `${max("ratelimit_emergency_mode", { by: ["cluster_id"] })} == 1`,
      for: MINUTE,
      severity: "critical",
      summary: "Emergency in {{ $labels.cluster_id }}: limits depend on the priority of the app",
      description:
        "Started by an operator, or because the cluster could not pay the apps' own rates. Priority 3 and above is blocked.",
    },
    TollgateDrift: {
      expr: `${increase("ratelimit_reconcile_corrections_total", time(30 * MINUTE))} > 0`,
      for: MINUTE,
      severity: "warning",
      summary: "Buckets differed from the counters of the nodes and were corrected",
      description: "Usual after a failover of Redis that lost writes. Otherwise, something else writes to the store.",
    },
    TollgateConnectionLeasesLost: {
      expr: `${increase("websocket_leases_lost_total", time(10 * MINUTE))} > 0`,
      for: MINUTE,
      severity: "warning",
      summary: "{{ $value | humanize }} open connections lost their slots",
      description: "Their leases expired before they were renewed, or the store lost them.",
    },
    TollgateConnectionLimitReached: {
      expr: `${rate("websocket_refusals_total", { by: ["reason"], where: { reason: `=~${CONNECTION_LIMITS}` } })} > 0`,
      for: 5 * MINUTE,
      severity: "warning",
      summary: "Connections are refused: {{ $labels.reason }}",
      description: "The limit of pods, of the route or of an app is reached.",
    },
    TollgateSlotsLeaked: {
      // Slots of a proxy that dies are freed when their leases expire, by default after 30 seconds.
      expr: `${recorded.slots} - ${recorded.openConnections} > 0`,
      for: 5 * MINUTE,
      severity: "warning",
      summary: "{{ $value }} slots are occupied without an open connection",
      description:
        "The slots are renewed by a proxy that has no such connections, or whose connections are not counted.",
    },
    TollgateConfigMismatch: {
      expr: `${distinct("ratelimit_config_info", ["version"])} > 1 or ${max("ratelimit_node_config_differs", { by: ["node_id"] })} == 1`,
      for: 5 * MINUTE,
      severity: "warning",
      summary: "Services or data planes use different configurations",
      description: "The limits that a request gets depend on the node that handles it.",
    },
    TollgateReloadRefused: {
      expr: `${increase("ratelimit_config_reloads_total", time(10 * MINUTE), { where: { result: "refused" } })} > 0`,
      for: MINUTE,
      severity: "warning",
      summary: "An invalid configuration was refused",
      description: "The configuration before it stays active. The log and `tollgate health deep` have the reason.",
    },
    TollgateNodesUnresponsive: {
      // A dead node is listed until its tokens are returned, at most a minute later, which may be between two scrapes.
      expr: `${highest("ratelimit_dead_nodes", time(5 * MINUTE))} > 0 or ${increase(
        "ratelimit_reconcile_recovered_tokens_total",
        time(5 * MINUTE),
      )} > 0`,
      for: MINUTE,
      severity: "warning",
      summary: "Nodes went silent without leaving",
      description: "A worker, nginx or Envoy crashed, hangs, or does not reach the services.",
    },
    TollgateTargetDown: {
      expr: `up{job=~"${SERVICE_JOB}|${NGINX_JOB}"} == 0`,
      for: MINUTE,
      severity: "critical",
      summary: "{{ $labels.instance }} does not answer",
      description: "Prometheus gets no metrics from this service or nginx.",
    },
    TollgateCertificateExpiresSoon: {
      expr: `${expiry} - time() < ${14 * DAY}`,
      for: HOUR,
      severity: "warning",
      summary:
        "The certificate of {{ $labels.section }} on {{ $labels.instance }} expires in {{ $value | humanizeDuration }}",
      description: "New files are used without a restart.",
    },
    TollgateCertificateExpiresNow: {
      expr: `${expiry} - time() < ${2 * DAY}`,
      for: 5 * MINUTE,
      severity: "critical",
      summary:
        "The certificate of {{ $labels.section }} on {{ $labels.instance }} expires in {{ $value | humanizeDuration }}",
      description: "After that, clients and planes cannot connect. New files are used without a restart.",
    },
    TollgateOverload: {
      expr: `${rate("ratelimit_overload_refusals_total", { by: ["instance", "listener"] })} > 0 or ${sum(
        "ratelimit_overload_refused_share",
        { by: ["instance", "node_id"] },
      )} > 0`,
      for: 2 * MINUTE,
      severity: "critical",
      summary: "{{ $labels.instance }} refuses new work because it is overloaded",
      description: "It has too little CPU time, memory or files. Clients get 503 overloaded.",
    },
  } satisfies Record<string, Alert>;
}

export function alertRules(time: Duration = duration): RuleGroup[] {
  const rules = Object.entries<Alert>(alerts(time)).map(
    ([alert, { expr, severity, summary, description, ...rest }]) => ({
      alert,
      expr,
      for: time(rest.for),
      labels: { severity },
      annotations: { summary, description, runbook_url: runbookOf(alert) },
    }),
  );
  return [{ name: "tollgate-alerts", rules }];
}
