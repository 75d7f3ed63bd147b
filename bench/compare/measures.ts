/** What the comparison reports: one number per system and measure, and which direction is better. */
import type { Outage, Slots } from "./scenarios.js";

export interface Measured {
  name: string;
  title: string;
  isOurs: boolean;
  version: string;
  configuration: string;
  source: string;
  windows: { worst: number; storeCalls: number | undefined };
  utilisation: number;
  cost: { throughput: number; cpu: number };
  outage: Outage | undefined;
  calmUsers: number | undefined;
  slots: Slots | undefined;
}

export interface Measure {
  title: string;
  /** Above the table of the measure. */
  explanation: string;
  of(measured: Measured): number | undefined;
  /** What is as good as possible: a limit is neither exceeded nor left unused. */
  best: number;
  better: "lower" | "higher" | "closer";
  /** In place of a number that does not exist. */
  none: string;
  text(value: number): string;
}

const ratio = (value: number) => value.toFixed(2);
const percent = (value: number) => `${(value * 100).toFixed(value > 0 && value < 0.01 ? 1 : 0)} %`;
const seconds = (value: number) => `${value.toFixed(1)} s`;

export const MEASURES: Measure[] = [
  {
    title: "Worst window",
    explanation:
      "admitted ÷ (burst + rate × time) in the worst time window, over three nodes: steady load, then a flood. Above 1 the limit is exceeded",
    of: ({ windows }) => windows.worst,
    best: 1,
    better: "lower",
    none: "",
    text: ratio,
  },
  {
    title: "Utilisation under skew",
    explanation:
      "admitted ÷ (rate × time) at three times the rate, with 80, 15 and 5 % of the load on the nodes. Below 1 a part of the limit cannot be used",
    of: ({ utilisation }) => utilisation,
    best: 1,
    better: "closer",
    none: "",
    text: ratio,
  },
  {
    title: "Store calls per request",
    explanation: "Redis calls ÷ requests at 80 % of the rate",
    of: ({ windows }) => windows.storeCalls,
    best: 0,
    better: "lower",
    none: "no store",
    text: (value) => value.toFixed(value < 0.1 ? 3 : 2),
  },
  {
    title: "Throughput",
    explanation: "requests/s of one node with its limiter ÷ the same proxy without, with wrk on the same cores",
    of: ({ cost }) => cost.throughput,
    best: 1,
    better: "higher",
    none: "",
    text: ratio,
  },
  {
    title: "CPU per request",
    explanation: "CPU time of proxy, rate limit service and store ÷ that of the same proxy without a limiter",
    of: ({ cost }) => cost.cpu,
    best: 1,
    better: "lower",
    none: "",
    text: ratio,
  },
  {
    title: "Store killed: admitted",
    explanation:
      "admitted ÷ (rate × time) while Redis is dead for four seconds, at twice the rate: 2 means no limit, 0 that nothing passes",
    of: ({ outage }) => outage?.admitted,
    best: 1,
    better: "closer",
    none: "no store",
    text: ratio,
  },
  {
    title: "Store killed: failed",
    explanation: "requests with 5xx or without a response meanwhile",
    of: ({ outage }) => outage?.failed,
    best: 0,
    better: "lower",
    none: "no store",
    text: percent,
  },
  {
    title: "Store killed: recovery",
    explanation: "seconds from the restart of Redis until no request fails and the limit holds",
    of: ({ outage }) => outage?.recoverySeconds,
    best: 0,
    better: "lower",
    none: "no store",
    text: seconds,
  },
  {
    title: "Refused requests use no quota",
    explanation:
      "admitted share of requests of users within their limits, while another user is refused by a limit per user. Below 1, refused requests have used the quota of the app",
    of: ({ calmUsers }) => calmUsers,
    best: 1,
    better: "higher",
    none: "one limit",
    text: ratio,
  },
  {
    title: "Connections",
    explanation:
      "open connections ÷ limit, 30 clients over three nodes at the same time. Above 1 the limit is exceeded",
    of: ({ slots }) => slots?.open,
    best: 1,
    better: "closer",
    none: "none",
    text: ratio,
  },
  {
    title: "Connections through one node",
    explanation: "the same if all clients use one node",
    of: ({ slots }) => slots?.openOnOne,
    best: 1,
    better: "closer",
    none: "none",
    text: ratio,
  },
  {
    title: "Slots of a killed proxy",
    explanation: "seconds until they can be used again",
    of: ({ slots }) => (slots === undefined ? undefined : (slots.freedSeconds ?? 40)),
    best: 0,
    better: "lower",
    none: "none",
    text: (value) => (value >= 40 ? "not within 40 s" : seconds(value)),
  },
];

/** Distance from what is as good as possible; smaller is better. */
export function loss({ best, better }: Measure, value: number): number {
  if (better === "closer") return Math.abs(value - best);
  return better === "lower" ? Math.max(value - best, 0) : Math.max(best - value, 0);
}
