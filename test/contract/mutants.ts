/** Scripts broken on purpose, each with a seed whose histories detect it: proof that the histories can fail. */

interface Mutant {
  name: string;
  /** A module of the library, below src/scripts. */
  module: string;
  /** Matches the Lua code of that module. It must match exactly once. */
  find: RegExp;
  replace: string;
  seed: number;
  /** The kind of histories that detects it. */
  kind: "quota" | "shares" | "slots";
  /** What the histories report: the violated invariant or the wrong reply. */
  promise: "I1" | "I5" | "acquire" | "lost" | "counts";
}

export const mutants: Mutant[] = [
  {
    name: "grant without the L1 check",
    kind: "quota",
    module: "grant",
    find: /if need > inCluster and not isPayableInAdvance\([^)]*\)\s*\) then/g,
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
    name: "grant that does not store its last reply",
    kind: "quota",
    module: "common/message",
    find: /if answer ~= false then/g,
    replace: "if false then",
    seed: 1,
    promise: "I5",
  },
  {
    name: "grant that treats a late message as a new one",
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
    module: "common/counters",
    find: /spent \+ returned,/g,
    replace: "0,",
    seed: 1,
    promise: "I5",
  },
  {
    name: "a message whose returned tokens are counted twice",
    kind: "quota",
    module: "common/counters",
    find: /entry\.returned = entry\.returned \+ tokens/g,
    replace: "",
    seed: 1,
    promise: "I5",
  },
  {
    name: "a bucket that ignores what nodes hold",
    kind: "quota",
    module: "common/app",
    find: /app\.held = \(app\.granted - app\.spent - app\.returned > 0 and .*/g,
    replace: "app.held = 0",
    seed: 1,
    promise: "I1",
  },
  {
    name: "refill of an outage that pays for any number of reports",
    kind: "quota",
    module: "common/app",
    find: /spare\.left = spare\.left - paid \* 1000000/g,
    replace: "",
    seed: 1,
    promise: "I1",
  },
  {
    name: "refill of an outage that is in the bucket and pays as well",
    kind: "quota",
    module: "common/app",
    find: /spareRefill\(lost, rate, last, outage\)/g,
    replace: "spareRefill(1e15, rate, last, outage)",
    seed: 4,
    promise: "I1",
  },
  {
    name: "reconcile that returns a dead node's tokens more than once",
    kind: "quota",
    module: "reconcile",
    find: /returnedField\(id\),\s*entry\.returned,/g,
    replace: "returnedField(id), entry.returned - held,",
    seed: 1,
    promise: "I5",
  },
  {
    name: "borrow that does not store its replies",
    kind: "quota",
    module: "borrow",
    find: /if #before > 0 then/g,
    replace: "if false then",
    seed: 1,
    promise: "I5",
  },
  {
    name: "a rebalance that increases before it reduces: the reduction is answered, but not made",
    kind: "shares",
    module: "share-set",
    find: /writeShare\(redis, key\.cluster, share\)/g,
    replace:
      "if share.capacity >= before.capacity and share.rate >= before.rate then writeShare(redis, key.cluster, share) end",
    seed: 1,
    promise: "I1",
  },
  {
    name: "a share that survives a crash twice: an ended round still changes it",
    kind: "shares",
    module: "share-set",
    find: /return \{STALE_MESSAGE, before\.capacity, before\.rate\}/g,
    replace: "",
    seed: 1,
    promise: "I1",
  },
  {
    name: "acquire without the pod's limit",
    kind: "slots",
    module: "slot-acquire",
    find: /elseif load >= values\.maxPerPod then/g,
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
    name: "renew that restores an expired lease",
    kind: "slots",
    module: "slot-renew",
    find: /> clock\.lease then/g,
    replace: "> 0 then",
    seed: 1,
    promise: "lost",
  },
];
