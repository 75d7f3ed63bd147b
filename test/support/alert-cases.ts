/** Series for `promtool test rules`, one value per minute: a healthy system, and the fault of each alert. */
import type { AlertName } from "../../build/monitoring/alerts.js";

/** Length of the series. */
export const MINUTES = 120;

const service = (metric: string, labels = "") =>
  `${metric}{job="tollgate",cluster="c",instance="gw:9145"${labels === "" ? "" : `,${labels}`}}`;
const constant = (value: number) => `${value}x${MINUTES}`;
/** By this much per minute. */
const growing = (by: number) => `0+${by}x${MINUTES}`;
/** 0 for an hour, then growing. */
const later = (by: number) => `0x59 0+${by}x60`;
/** 0 for an hour, then this value. */
const laterAt = (value: number) => `0x59 ${value}x60`;

const DAY_SECONDS = 86_400;
const up = service("up");
const allowed = service("ratelimit_requests_total", 'app_id="a",method="GET",status="allowed"');
const rejected = service("ratelimit_requests_total", 'app_id="a",method="GET",status="rejected"');
const level = service("ratelimit_degradation_level", 'node_id="gw-1"');
const commands = service("ratelimit_redis_commands_total", 'command="grant",outcome="ok"');
const errors = service("ratelimit_store_errors_total", 'kind="timeout"');
const emergency = service("ratelimit_emergency_mode", 'cluster_id="c"');
const corrections = service("ratelimit_reconcile_corrections_total");
const lost = service("websocket_leases_lost_total");
const refused = service("websocket_refusals_total", 'reason="LIMIT_EXCEEDED"');
const slots = service("websocket_pod_slots", 'route="/ws/",upstream="u",pod="p:1"');
const active = service("websocket_connections_active_total");
const config = service("ratelimit_config_info", 'version="1"');
const reloads = service("ratelimit_config_reloads_total", 'result="refused"');
const dead = service("ratelimit_dead_nodes");
const certificate = service("ratelimit_certificate_expiry_timestamp_seconds", 'section="tls"');
const shed = service("ratelimit_overload_refusals_total", 'listener="gateway"');
const share = service("ratelimit_overload_refused_share", 'node_id="gw-1"');

export const healthySeries: Record<string, string> = {
  [up]: constant(1),
  [allowed]: growing(600),
  // 2 % of all requests are refused, as usual.
  [rejected]: growing(12),
  [level]: constant(0),
  [commands]: growing(600),
  // One of a thousand.
  [errors]: growing(0.6),
  [emergency]: constant(0),
  [corrections]: constant(3),
  [lost]: constant(2),
  [refused]: constant(7),
  [slots]: constant(4),
  [active]: constant(4),
  [config]: constant(1),
  [reloads]: constant(1),
  [dead]: constant(0),
  [certificate]: constant(90 * DAY_SECONDS),
  [shed]: constant(5),
  [share]: constant(0),
};

interface AlertCase {
  series: Record<string, string>;
  /** Minutes after the start: one hour, the duration of the alert, and the range that it looks at. */
  silentAt: number;
  firesAt: number;
}

export const alertCases: Record<AlertName, AlertCase> = {
  // 20 % instead of 2 %, after an hour.
  TollgateRefusalsUnusual: { series: { [rejected]: "0+12x59 720+150x60" }, silentAt: 68, firesAt: 78 },
  TollgateDegraded: { series: { [level]: laterAt(2) }, silentAt: 61, firesAt: 63 },
  TollgateStoreUnavailable: { series: { [level]: laterAt(3) }, silentAt: 60, firesAt: 62 },
  TollgateStoreErrors: { series: { [errors]: later(30) }, silentAt: 64, firesAt: 72 },
  TollgateEmergency: { series: { [emergency]: laterAt(1) }, silentAt: 60, firesAt: 62 },
  TollgateDrift: { series: { [corrections]: "3x59 4x60" }, silentAt: 59, firesAt: 63 },
  TollgateConnectionLeasesLost: { series: { [lost]: "2x59 5x60" }, silentAt: 59, firesAt: 63 },
  TollgateConnectionLimitReached: { series: { [refused]: later(1) }, silentAt: 63, firesAt: 70 },
  TollgateSlotsLeaked: { series: { [slots]: "4x59 5x60" }, silentAt: 63, firesAt: 67 },
  TollgateConfigMismatch: {
    series: { [config.replace("gw:", "gw2:").replace('"1"', '"2"')]: "_x59 1x60" },
    silentAt: 63,
    firesAt: 67,
  },
  TollgateReloadRefused: { series: { [reloads]: "1x59 2x60" }, silentAt: 59, firesAt: 63 },
  // Dead for two minutes, then its tokens are returned.
  TollgateNodesUnresponsive: { series: { [dead]: "0x59 1x1 0x58" }, silentAt: 59, firesAt: 62 },
  TollgateTargetDown: { series: { [up]: "1x59 0x60" }, silentAt: 60, firesAt: 62 },
  // Time begins at 0 in these tests.
  TollgateCertificateExpiresSoon: { series: { [certificate]: constant(13 * DAY_SECONDS) }, silentAt: 59, firesAt: 61 },
  TollgateCertificateExpiresNow: { series: { [certificate]: constant(DAY_SECONDS) }, silentAt: 4, firesAt: 6 },
  TollgateOverload: { series: { [share]: laterAt(0.5) }, silentAt: 61, firesAt: 63 },
};
