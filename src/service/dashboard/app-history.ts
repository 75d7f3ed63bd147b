/** Requests per second of apps in the last 15 minutes, for the chart on the page of an app. Memory is bounded. */
import type { AppPoint } from "./contract.js";

export interface AppHistoryOptions {
  /** Apps with a history. */
  apps?: number;
  /** Points of each. */
  points?: number;
}

export interface AppTraffic {
  requests: number;
  refused: number;
  dryRunRefused: number;
}

const MOST_APPS = 500;
const KEPT = 180;
const none: AppTraffic = { requests: 0, refused: 0, dryRunRefused: 0 };

export function createAppHistory({ apps: mostApps = MOST_APPS, points: kept = KEPT }: AppHistoryOptions = {}) {
  /** Apps with requests, those that had none for longest first. */
  const histories = new Map<string, AppPoint[]>();
  let before: ReadonlyMap<string, AppTraffic> = new Map();
  let beforeMs: number | undefined;

  return {
    /**
     * @param totals cumulative
     * @param nowMs monotonic
     * @param at Unix time in seconds
     */
    sample(totals: ReadonlyMap<string, AppTraffic>, nowMs: number, at: number): void {
      const last = before;
      const seconds = beforeMs === undefined ? 0 : (nowMs - beforeMs) / 1000;
      [before, beforeMs] = [totals, nowMs];
      if (seconds <= 0) return;
      const idle = new Set(histories.keys());
      const active: string[] = [];
      for (const [app, { requests }] of totals) {
        if (requests <= (last.get(app)?.requests ?? 0)) continue;
        active.push(app);
        idle.delete(app);
      }
      for (const app of active) {
        const points = histories.get(app) ?? [];
        if (!histories.has(app) && histories.size >= mostApps) {
          const [oldest] = idle;
          if (oldest === undefined) continue;
          histories.delete(oldest);
          idle.delete(oldest);
        }
        histories.delete(app);
        histories.set(app, points);
      }
      for (const [app, points] of histories) {
        const [now, old] = [totals.get(app) ?? none, last.get(app) ?? none];
        const rate = (name: keyof AppTraffic) => Math.round((Math.max(now[name] - old[name], 0) / seconds) * 1e3) / 1e3;
        points.push({ at, requests: rate("requests"), refused: rate("refused"), dry_run: rate("dryRunRefused") });
        if (points.length > kept) points.shift();
      }
    },
    /** The points of an app; none if it had no requests lately. */
    of: (app: string): readonly AppPoint[] => histories.get(app) ?? [],
  };
}
