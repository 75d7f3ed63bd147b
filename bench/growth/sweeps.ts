/** The sweeps of the growth benchmark: number of apps, number of nodes, and requests per second of an app on a node. */
import type { Measured, Point } from "../support/fleet.js";

/** Not reached: what is measured is the cost of admitting. */
const AMPLE = { guaranteed: 100_000, burst: 1_000_000 };
/** An app is reported every 30 s while its tokens are plentiful: one such time to warm up, one to count. */
const COMMON = { limits: AMPLE, warmUpSeconds: 32, seconds: 30 };

export interface Sweep {
  varied: "apps" | "nodes" | "perPair";
  /** The axis of the chart and the column of the table. */
  title: string;
  /** What all points have in common. */
  fixed: string;
  points: Point[];
}

export interface MeasuredSweep extends Sweep {
  measured: Measured[];
}

const byApps: Point[] = [10, 100, 1_000, 10_000].map((apps) => ({ nodes: 4, apps, perPair: 0.5, ...COMMON }));
const byNodes: Point[] = [1, 10, 100].map((nodes) => ({ nodes, apps: 100, perPair: 2, ...COMMON }));
const byRate: Point[] = [
  { nodes: 10, apps: 1_000, perPair: 0.5, ...COMMON },
  { nodes: 10, apps: 100, perPair: 5, ...COMMON },
  { nodes: 10, apps: 10, perPair: 50, ...COMMON },
  { nodes: 10, apps: 1, perPair: 500, ...COMMON },
  { nodes: 2, apps: 1, perPair: 5_000, ...COMMON },
];

export const SWEEPS: Sweep[] = [
  { varied: "apps", title: "apps", fixed: "4 nodes, 0.5 requests/s per pair", points: byApps },
  { varied: "nodes", title: "nodes", fixed: "100 apps, 2 requests/s per pair", points: byNodes },
  {
    varied: "perPair",
    title: "requests/s per pair",
    fixed: "5,000 requests/s in total on 10 nodes; at 5,000/s per pair one app on 2 nodes",
    points: byRate,
  },
];

/** Points that are measured at the same time, each on its own Redis: together what two cores can carry. */
export const BATCHES: Point[][] = [
  [...byApps.slice(0, 3), ...byNodes.slice(0, 2), ...byRate],
  [byApps[3]!],
  [byNodes[2]!],
];

/** A point that carries a smaller share of its requests is overloaded, and its figures are those of an overload. */
export const LEAST_CARRIED = 0.9;

/** Apps on one node for which the memory per app is measured. */
export const MEMORY_APPS = [1_000, 10_000];
export const MEMORY_LIMITS = AMPLE;
