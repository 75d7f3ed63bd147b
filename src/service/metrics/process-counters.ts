/** Counts what a process does besides deciding about requests: store calls, syncs, connections. Measures its event loop delay. */
import { monitorEventLoopDelay } from "node:perf_hooks";
import { LATENCY_BOUNDS_SECONDS } from "../../core/latency.js";
import { isLiftedByDryRun } from "../../core/refusals.js";
import type { BudgetName } from "../../shared/access/plane-budgets.js";
import type { BackgroundTask } from "../../shared/background.js";
import type { ShedReason } from "../../shared/connection-limits.js";
import type { SlotDecision } from "../../slots/slot-keeper-options.js";
import type { StoreCommand, StoreOutcome } from "../../store/observed-store.js";
import { metricList } from "./catalog.js";
import { connectionReasons, type Exporter, type Listener, type syncOutcomes } from "./labels.js";
import { newHistogram, observe, type Series } from "./series.js";

/** Upper bounds of the latency histograms in reports. */
export const latencyBoundsSeconds = LATENCY_BOUNDS_SECONDS;

/** A histogram with `latencyBoundsSeconds`. */
export const newLatency = () => newHistogram(latencyBoundsSeconds);

export type ProcessCounters = ReturnType<typeof createProcessCounters>;

export function createProcessCounters(series: Series) {
  for (const [name, { initial }] of metricList) for (const labels of initial) series.of(name, ...labels);
  const connectionRefusals: Record<string, number> = {};
  function refused(code: string): void {
    const reason = connectionReasons.includes(code) ? code : "other";
    connectionRefusals[reason] = (connectionRefusals[reason] ?? 0) + 1;
    series.add("websocket_refusals_total", [reason]);
    series.add("websocket_connections_rejected_total", []);
  }

  const storeLatency = newLatency();
  let storeErrors = 0;
  return {
    /** Store calls of all commands, and refused connections by reason, since the process started. */
    totals: () => ({ storeLatency: [...storeLatency], storeErrors, connectionRefusals: { ...connectionRefusals } }),
    storeObserver: {
      called(command: StoreCommand, outcome: StoreOutcome, seconds: number): void {
        observe(storeLatency, latencyBoundsSeconds, seconds);
        if (outcome !== "ok") storeErrors++;
        series.add("ratelimit_redis_commands_total", [command, outcome]);
        series.observe("ratelimit_redis_latency_seconds", [command], seconds);
        if (outcome !== "ok") series.add("ratelimit_store_errors_total", [outcome]);
      },
    },
    slotObserver: {
      decided({ allowed, code, dryRun = false, milliseconds }: SlotDecision): void {
        series.observe("websocket_acquire_seconds", [], milliseconds / 1000);
        if (dryRun && isLiftedByDryRun(code)) series.add("websocket_dry_run_refusals_total", [code]);
        else if (!allowed) refused(code);
      },
      lost: (leases: number) => series.add("websocket_leases_lost_total", [], leases),
      reclaimed: () => series.add("websocket_leases_reclaimed_total", []),
    },
    /** New work was refused because of overload. */
    shed: (listener: Listener): void => series.add("ratelimit_overload_refusals_total", [listener]),
    connectionShed: (listener: Listener, reason: ShedReason): void =>
      series.add("ratelimit_connections_shed_total", [listener, reason]),
    backgroundFailed: (task: BackgroundTask): void => series.add("ratelimit_background_errors_total", [task]),
    /** A data plane exceeded its budget. */
    overBudget: (budget: BudgetName): void => series.add("ratelimit_plane_budget_refusals_total", [budget]),
    exportFailed: (exporter: Exporter): void => series.add("ratelimit_export_failures_total", [exporter]),
    logLineLost: (): void => series.add("ratelimit_log_lines_lost_total", []),
    handshakeFailed: (listener: Listener): void => series.add("ratelimit_tls_handshake_failures_total", [listener]),
    /** For the syncs of a limiter, and for sync messages of data planes. */
    synced(outcome: (typeof syncOutcomes)[number], milliseconds: number, apps: number): void {
      series.observe("ratelimit_sync_apps", [], apps);
      series.observe("ratelimit_sync_latency_seconds", [outcome], milliseconds / 1000);
    },
  };
}

/** Adds the expiry of certificates. @param expiries Unix milliseconds by TLS section */
export function addCertificates(gauges: Series, expiries: ReadonlyMap<string, number> = new Map()): void {
  for (const [section, expiresAtMs] of expiries) {
    gauges.add("ratelimit_certificate_expiry_timestamp_seconds", [section], expiresAtMs / 1000);
  }
}

export type LoopLag = ReturnType<typeof watchLoopLag>;

const RESOLUTION_MS = 20;

/** Measures event loop delay in libuv, without timers of our own. */
export function watchLoopLag() {
  const delays = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delays.enable();
  // Node reports the time between two samples; the sampling interval itself is no delay.
  const lag = (nanoseconds: number) => Math.max(nanoseconds / 1e9 - RESOLUTION_MS / 1000, 0) || 0;
  return {
    /** Adds the mean and the 99th percentile since the last call. */
    addTo(gauges: Series, node: string): void {
      gauges.add("ratelimit_event_loop_lag_seconds", [node], lag(delays.mean));
      gauges.add("ratelimit_event_loop_lag_p99_seconds", [node], lag(delays.percentile(99)));
      delays.reset();
    },
    close: () => void delays.disable(),
  };
}
