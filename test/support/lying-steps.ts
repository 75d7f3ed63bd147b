/** Histories of honest nodes and one that lies: its counters, epochs and sequence numbers follow no rule. */
import fc from "fast-check";

export const LIAR_APPS = [
  { id: "a", guaranteed: 10, burst: 20, priority: 1, borrow: false },
  { id: "b", guaranteed: 0, burst: 50, priority: 1, borrow: false },
];
export const HONEST = ["h1", "h2"];
export const PLACES = LIAR_APPS.map((_app, place) => place);

/** How the liar changes what it claimed before. */
const CHANGES = [
  ...(["granted", "returned", "granted and returned", "granted and spent", "spent", "less spent"] as const),
  ...(["all spent", "all returned", "nothing"] as const),
];
export type Change = (typeof CHANGES)[number];

export interface Lie {
  kind: "lie";
  script: "grant" | "report" | "leave" | "final";
  changes: { app: number; change: Change; by: number }[];
  /** Bit set of the apps in the message. */
  apps: number;
  epoch: "same" | "new" | "old";
  seq: "next" | "same" | "older" | "far";
  need: number;
  want: number;
}

export type LyingStep =
  | Lie
  | { kind: "ask"; node: number; apps: number; need: number; want: number; lost: boolean }
  | { kind: "spend" | "refund" | "return"; node: number; app: number; amount: number }
  | { kind: "leave"; node: number }
  | { kind: "clock"; ms: number }
  | { kind: "reconcile"; app: number; force: boolean };

const amount = fc.constantFrom(1, 3, 10, 20, 50);
const lie: fc.Arbitrary<Lie> = fc.record({
  kind: fc.constant("lie"),
  script: fc.constantFrom("grant", "grant", "grant", "report", "leave", "final"),
  changes: fc.array(
    fc.record({
      app: fc.nat({ max: PLACES.length - 1 }),
      change: fc.constantFrom(...CHANGES),
      by: fc.oneof(
        { weight: 4, arbitrary: amount },
        fc.constantFrom(1000, 6 * 10 ** 8, 2 * 10 ** 9, 2 ** 51, 2 ** 53 - 1),
      ),
    }),
    { maxLength: 3 },
  ),
  apps: fc.integer({ min: 0, max: 3 }),
  epoch: fc.constantFrom("same", "same", "same", "same", "new", "old"),
  seq: fc.constantFrom("next", "next", "next", "next", "next", "same", "older", "far"),
  need: fc.constantFrom(0, 0, 5, 20, 1000, 2 ** 53 - 1),
  want: fc.constantFrom(0, 5, 20, 1000, 2 ** 53 - 1),
});
const node = fc.nat({ max: HONEST.length - 1 });
const app = fc.nat({ max: PLACES.length - 1 });
const step: fc.Arbitrary<LyingStep> = fc.oneof(
  { weight: 9, arbitrary: lie },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant("ask"),
      node,
      apps: fc.integer({ min: 1, max: 3 }),
      need: fc.constantFrom(0, 1, 10, 20),
      want: fc.constantFrom(0, 20, 100),
      lost: fc.nat({ max: 4 }).map((n) => n === 0),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({ kind: fc.constantFrom("spend", "spend", "refund", "return"), node, app, amount }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("leave"), node }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("clock"), ms: fc.constantFrom(10, 370, 1000) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("reconcile"), app, force: fc.boolean() }) },
);

export const lyingHistory: fc.Arbitrary<LyingStep[]> = fc.array(step, { minLength: 5, maxLength: 50, size: "max" });

/** An honest node spends 20 of 50 tokens of app b, and reports it: tokens that it still held would hide created ones. */
const honestSpend: LyingStep[] = [
  { kind: "ask", node: 0, apps: 2, need: 20, want: 20, lost: false },
  { kind: "spend", node: 0, app: 1, amount: 20 },
  { kind: "ask", node: 0, apps: 2, need: 0, want: 0, lost: false },
];

/** A lie about app b. */
function lieOf(script: Lie["script"], change: Change, by: number, more: Partial<Lie> = {}): Lie {
  const changes = [{ app: 1, change, by }];
  return { kind: "lie", script, changes, apps: 2, epoch: "same", seq: "next", need: 0, want: 0, ...more };
}

/** Lies that have created tokens, or would if one rule were missing. */
export const knownLies: Record<string, LyingStep[]> = {
  "spending is refunded while another node claims what the app may hold": [
    { kind: "ask", node: 1, apps: 1, need: 20, want: 0, lost: true },
    { kind: "ask", node: 1, apps: 1, need: 0, want: 0, lost: false },
    { kind: "spend", node: 1, app: 0, amount: 1 },
    lieOf("grant", "granted", 1),
    { kind: "ask", node: 1, apps: 1, need: 0, want: 0, lost: true },
    { kind: "refund", node: 1, app: 0, amount: 1 },
    { kind: "ask", node: 1, apps: 1, need: 0, want: 0, lost: true },
  ],
  "tokens are granted and returned at once, above what can be charged": [
    ...honestSpend,
    lieOf("grant", "granted", 6e8),
    lieOf("grant", "granted and returned", 6e8),
    lieOf("grant", "all returned", 0),
  ],
  "more is claimed than a bucket can owe, then returned": [
    ...honestSpend,
    lieOf("grant", "granted", 2e9),
    lieOf("grant", "all returned", 0),
  ],
  "spending that the store does not know is refunded": [
    ...honestSpend,
    lieOf("grant", "granted and spent", 50),
    lieOf("grant", "all returned", 0),
  ],
  "a final report asks for tokens, and its spending is refunded": [
    ...honestSpend,
    lieOf("grant", "nothing", 0),
    lieOf("final", "granted and spent", 50, { need: 5, want: 5 }),
    lieOf("grant", "granted", 5),
    lieOf("grant", "all returned", 0),
  ],
  "the node leaves without its apps, and returns tokens that were reconciled": [
    ...honestSpend,
    lieOf("grant", "nothing", 0, { need: 20, want: 20 }),
    lieOf("leave", "granted", 20, { apps: 0 }),
    { kind: "reconcile", app: 1, force: true },
    lieOf("report", "all returned", 0),
  ],
  "spending is refunded after the epoch was closed, reconciled, and returned again": [
    ...honestSpend,
    lieOf("grant", "nothing", 0, { need: 20, want: 20 }),
    lieOf("leave", "granted and spent", 20),
    lieOf("report", "less spent", 20),
    { kind: "reconcile", app: 1, force: true },
    lieOf("report", "all returned", 0),
  ],
};
