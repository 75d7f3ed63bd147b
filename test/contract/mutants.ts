/** Scripts broken on purpose, each with the seed of a history that finds it out: proof that the histories can fail. */
import type { ScriptName } from "../../src/scripts/catalog.js";

interface Mutant {
  name: string;
  script: ScriptName;
  /** In the generated Lua; it must occur once. */
  find: RegExp;
  replace: string;
  seed: number;
  /** The histories that find it out. */
  kind: "quota" | "slots";
  /** What the histories then complain of: an invariant, or the answer that is wrong. */
  promise: "I1" | "I5" | "acquire" | "lost" | "counts";
}

export const mutants: Mutant[] = [
  {
    name: "grant without the L1 check",
    kind: "quota",
    script: "grant",
    find: /if need > inCluster then/g,
    replace: "if false then",
    seed: 1,
    promise: "I1",
  },
  {
    name: "grant without the L2 check",
    kind: "quota",
    script: "grant",
    find: /if not borrows then/g,
    replace: "if false then",
    seed: 1,
    promise: "I1",
  },
  {
    name: "grant that forgets its last answer",
    kind: "quota",
    script: "grant",
    find: /if answer ~= false then/g,
    replace: "if false then",
    seed: 1,
    promise: "I5",
  },
  {
    name: "grant that takes a late message for a new one",
    kind: "quota",
    script: "grant",
    find: /if ledger_known and head\[4\] <= ledger_seq then/g,
    replace: "if false then",
    seed: 1,
    promise: "I5",
  },
  {
    name: "grant that does not charge spend without cover",
    kind: "quota",
    script: "grant",
    find: /if uncovered > 0 then/g,
    replace: "if false then",
    seed: 1,
    promise: "I5",
  },
  {
    name: "report that books a return twice",
    kind: "quota",
    script: "report",
    find: /entry\.returned = returned(?=\s*end\s*app_spent)/g,
    replace: "",
    seed: 1,
    promise: "I5",
  },
  {
    name: "reconcile that recovers a dead node's tokens again and again",
    kind: "quota",
    script: "reconcile",
    find: /ledger_entries\[1\]\.returned \+ held/g,
    replace: "ledger_entries[1].returned",
    seed: 1,
    promise: "I5",
  },
  {
    name: "borrow that forgets its answers",
    kind: "quota",
    script: "borrow",
    find: /if #before > 0 then/g,
    replace: "if false then",
    seed: 1,
    promise: "I5",
  },
  {
    name: "acquire without the pod's limit",
    kind: "slots",
    script: "slot-acquire",
    find: /elseif load >= numbers\[2\] then/g,
    replace: "elseif false then",
    seed: 1,
    promise: "acquire",
  },
  {
    name: "acquire that ignores an earlier release",
    kind: "slots",
    script: "slot-acquire",
    find: /if released > clock\.lease then/g,
    replace: "if false then",
    seed: 1,
    promise: "acquire",
  },
  {
    name: "acquire whose refusals use up the rate",
    kind: "slots",
    script: "slot-acquire",
    find: /code = "RATE_LIMITED"/g,
    replace: 'code = "RATE_LIMITED"; redis.call("ZADD", keys[4], clock.steady, member .. clock.steady)',
    seed: 1,
    promise: "acquire",
  },
  {
    name: "renew that brings a lost lease back",
    kind: "slots",
    script: "slot-renew",
    find: /> clock_lease then/g,
    replace: "> 0 then",
    seed: 1,
    promise: "lost",
  },
];
