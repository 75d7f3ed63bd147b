/** Scripts broken on purpose, each with the seed of a history that detects it: proof that the histories can fail. */

interface Mutant {
  name: string;
  /** A module of the library, below src/scripts. */
  module: string;
  /** In the Lua of that module; it must occur once. */
  find: RegExp;
  replace: string;
  seed: number;
  /** The histories that detect it. */
  kind: "quota" | "slots";
  /** What the histories then report: the broken invariant, or the wrong reply. */
  promise: "I1" | "I5" | "acquire" | "lost" | "counts";
}

export const mutants: Mutant[] = [
  {
    name: "grant without the L1 check",
    kind: "quota",
    module: "grant",
    find: /if need > inCluster then/g,
    replace: "if false then",
    seed: 1,
    promise: "I1",
  },
  {
    name: "grant without the L2 check",
    kind: "quota",
    module: "grant",
    find: /if not borrows then/g,
    replace: "if false then",
    seed: 1,
    promise: "I1",
  },
  {
    name: "grant that forgets its last answer",
    kind: "quota",
    module: "common/message",
    find: /if answer ~= false then/g,
    replace: "if false then",
    seed: 1,
    promise: "I5",
  },
  {
    name: "grant that takes a late message for a new one",
    kind: "quota",
    module: "common/message",
    find: /return ledger\.known and seq <= ledger\.seq/g,
    replace: "return false",
    seed: 1,
    promise: "I5",
  },
  {
    name: "grant that does not charge spend without cover",
    kind: "quota",
    module: "common/ledger",
    find: /if uncovered > 0 then/g,
    replace: "if false then",
    seed: 1,
    promise: "I5",
  },
  {
    name: "a message whose return is booked twice",
    kind: "quota",
    module: "common/ledger",
    find: /entry\.returned = returned(?=\s*end\s*app\.spent)/g,
    replace: "",
    seed: 1,
    promise: "I5",
  },
  {
    name: "reconcile that recovers a dead node's tokens again and again",
    kind: "quota",
    module: "reconcile",
    find: /ledger\.entries\[1\]\.returned \+ held/g,
    replace: "ledger.entries[1].returned",
    seed: 1,
    promise: "I5",
  },
  {
    name: "borrow that forgets its answers",
    kind: "quota",
    module: "borrow",
    find: /if #before > 0 then/g,
    replace: "if false then",
    seed: 1,
    promise: "I5",
  },
  {
    name: "acquire without the pod's limit",
    kind: "slots",
    module: "slot-acquire",
    find: /elseif load >= numbers\[MOST_PER_POD \+ 1\] then/g,
    replace: "elseif false then",
    seed: 1,
    promise: "acquire",
  },
  {
    name: "acquire that ignores an earlier release",
    kind: "slots",
    module: "slot-acquire",
    find: /if released > clock\.lease then/g,
    replace: "if false then",
    seed: 1,
    promise: "acquire",
  },
  {
    name: "acquire whose refusals use up the rate",
    kind: "slots",
    module: "slot-acquire",
    find: /code = SLOT_RATE_LIMITED/g,
    replace: 'code = SLOT_RATE_LIMITED; redis.call("ZADD", keys[4], clock.steady, member .. clock.steady)',
    seed: 1,
    promise: "acquire",
  },
  {
    name: "renew that brings a lost lease back",
    kind: "slots",
    module: "slot-renew",
    find: /> clock\.lease then/g,
    replace: "> 0 then",
    seed: 1,
    promise: "lost",
  },
];
