/** Recording rules: what alerts compare, and what is expensive to compute over long ranges. Names are level:metric:operation. */
import { createQueries } from "./queries.js";
import { type Duration, duration, MINUTE, type RuleGroup } from "./rules.js";

/** The name of each rule. */
export const recorded = {
  requests: "cluster:ratelimit_requests:rate5m",
  refusals: "cluster:ratelimit_refusals:rate5m",
  refusalRatio: "cluster:ratelimit_refusals:ratio_rate5m",
  appRequests: "cluster_app:ratelimit_requests:rate5m",
  appRefusals: "cluster_app:ratelimit_refusals:rate5m",
  decisionP99: "cluster:ratelimit_check_latency_seconds:p99_rate5m",
  hitRatio: "cluster:ratelimit_l3_hits:ratio_rate5m",
  storeErrorRatio: "cluster:ratelimit_store_errors:ratio_rate5m",
  storeP99: "cluster:ratelimit_redis_latency_seconds:p99_rate5m",
  openConnections: "cluster:websocket_connections:sum",
  slots: "cluster:websocket_slots:sum",
} as const;

type Recorded = keyof typeof recorded;

export function recordingRules(time: Duration = duration): RuleGroup[] {
  const { rate, sum, max, quantile } = createQueries({ window: time(5 * MINUTE), by: ["cluster"] });
  const hits = rate("ratelimit_l3_hits_total");
  const expressions: Record<Recorded, string> = {
    requests: rate("ratelimit_requests_total"),
    // 0 instead of nothing: the mean over the past is compared with it.
    refusals: `${rate("ratelimit_requests_total", { where: { status: "rejected" } })} or 0 * ${recorded.requests}`,
    refusalRatio: `${recorded.refusals} / (${recorded.requests} > 0)`,
    appRequests: rate("ratelimit_requests_total", { by: ["app_id"] }),
    appRefusals: rate("ratelimit_requests_total", { by: ["app_id"], where: { status: "rejected" } }),
    decisionP99: quantile(0.99, "ratelimit_check_latency_seconds"),
    hitRatio: `${hits} / (${hits} + ${rate("ratelimit_l3_misses_total")} > 0)`,
    storeErrorRatio: `${rate("ratelimit_store_errors_total")} / (${rate("ratelimit_redis_commands_total")} > 0)`,
    storeP99: quantile(0.99, "ratelimit_redis_latency_seconds"),
    openConnections: sum("websocket_connections_active_total"),
    // All services show the same slots.
    slots: `sum by (cluster) (${max("websocket_pod_slots", { by: ["route", "pod"] })})`,
  };
  const rules = Object.entries(expressions).map(([name, expr]) => ({ record: recorded[name as Recorded], expr }));
  return [{ name: "tollgate-recording", rules }];
}
