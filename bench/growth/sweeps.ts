/** The sweeps of the growth benchmark: number of apps, number of nodes, and requests per second of an app on a node. */
import type { Measured, Point } from "../support/fleet.js";

/** Not reached: what is measured is the cost of admitting. */
const AMPLE = { guaranteed: 100_000, burst: 1_000_000 };
/** Slow pairs are measured for longer, so that their leases are renewed in the counted time. */
const SLOW = { limits: AMPLE, warmUpSeconds: 5, seconds: 14 };
const FAST = { limits: AMPLE, warmUpSeconds: 3, seconds: 6 };

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

const THOUSAND_APPS: Point = { nodes: 10, apps: 1_000, perPair: 0.5, ...SLOW };

export const SWEEPS: Sweep[] = [
  {
    varied: "apps",
    title: "apps",
    fixed: "10 nodes, 0.5 requests/s per pair",
    points: [
      { nodes: 10, apps: 10, perPair: 0.5, ...SLOW },
      { nodes: 10, apps: 100, perPair: 0.5, ...SLOW },
      THOUSAND_APPS,
      { nodes: 10, apps: 10_000, perPair: 0.5, ...SLOW },
    ],
  },
  {
    varied: "nodes",
    title: "nodes",
    fixed: "100 apps, 2 requests/s per pair",
    points: [
      { nodes: 1, apps: 100, perPair: 2, ...SLOW },
      { nodes: 10, apps: 100, perPair: 2, ...SLOW },
      { nodes: 100, apps: 100, perPair: 2, ...SLOW },
    ],
  },
  {
    varied: "perPair",
    title: "requests/s per pair",
    fixed: "5,000 requests/s in total on 10 nodes; at 5,000/s per pair one app on 2 nodes",
    points: [
      THOUSAND_APPS,
      { nodes: 10, apps: 100, perPair: 5, ...FAST },
      { nodes: 10, apps: 10, perPair: 50, ...FAST },
      { nodes: 10, apps: 1, perPair: 500, ...FAST },
      { nodes: 2, apps: 1, perPair: 5_000, ...FAST },
    ],
  },
];

/** Apps on one node for which the memory per app is measured. */
export const MEMORY_APPS = [1_000, 10_000];
export const MEMORY_LIMITS = AMPLE;
