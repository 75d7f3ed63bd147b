/** Random histories of nodes that spend, lose replies, retry, delay, die and restart, run on a store and compared to a model. */
import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { shardOf } from "../../src/core/shard.js";
import { createQuota, type GrantRequest } from "../../src/quota/quota.js";
import { type DrivenStore, START } from "./driven-store.js";
import { BrokenPromise, type Counters, createModel } from "./quota-model.js";

const SECOND = 1_000_000;
const APPS = [
  { id: "a", guaranteed: 10, burst: 30, priority: 1, borrow: true },
  { id: "b", guaranteed: 5, burst: 50, priority: 2, borrow: false },
];
const NODES = ["n1", "n2", "n3"];
const CLUSTER = { capacity: 60, rate: 12, nodeTtlMs: 3000 };
/** A new store could have lost data, so it charges for no outage at first. */
const NEW_STORE_SECONDS = 12;

export type Step =
  | { kind: "grant"; node: number; apps: number; need: number; want: number; lost: boolean }
  | { kind: "report"; node: number; give: number; lost: boolean }
  | { kind: "spend" | "overspend" | "refund"; node: number; app: number; amount: number }
  | { kind: "retry" | "die" | "leave"; node: number }
  | { kind: "late"; back: number }
  | { kind: "clock"; seconds: number }
  | { kind: "outage"; seconds: number; app: number; spent: number[] }
  | { kind: "borrow" | "repay"; app: number; amount: number; operation: number }
  | { kind: "emergency"; on: boolean }
  | { kind: "tick" }
  | { kind: "reconcile"; app: number; force: boolean };

const node = fc.nat({ max: NODES.length - 1 });
const app = fc.nat({ max: APPS.length - 1 });
const rarely = fc.nat({ max: 4 }).map((n) => n === 0);

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant("grant" as const),
      node,
      apps: fc.integer({ min: 1, max: 3 }),
      need: fc.nat({ max: 35 }),
      want: fc.nat({ max: 80 }),
      lost: rarely,
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant("report" as const), node, give: fc.nat({ max: 40 }), lost: rarely }),
  },
  {
    weight: 5,
    arbitrary: fc.record({ kind: fc.constant("spend" as const), node, app, amount: fc.nat({ max: 40 }) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constantFrom("overspend" as const, "refund" as const),
      node,
      app,
      amount: fc.nat({ max: 20 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("retry" as const), node }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom("die" as const, "leave" as const), node }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("late" as const), back: fc.nat({ max: 8 }) }) },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("clock" as const),
      seconds: fc.oneof(
        { weight: 10, arbitrary: fc.constantFrom(0.01, 0.1, 0.37, 0.5, 1) },
        { weight: 1, arbitrary: fc.constantFrom(-0.2, -3600, 3600) },
      ),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("outage" as const),
      seconds: fc.constantFrom(2, 5, 20),
      app,
      spent: fc.array(fc.nat({ max: 100 }), { minLength: NODES.length, maxLength: NODES.length }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constantFrom("borrow" as const, "repay" as const),
      app,
      amount: fc.integer({ min: 1, max: 6 }),
      operation: fc.nat({ max: 6 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("emergency" as const), on: fc.boolean() }) },
  { weight: 2, arbitrary: fc.constant({ kind: "tick" as const }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("reconcile" as const), app, force: fc.boolean() }) },
);

export const history: fc.Arbitrary<Step[]> = fc.array(step, { minLength: 10, maxLength: 80, size: "max" });

interface SimulatedNode {
  name: string;
  epoch: number;
  seq: number;
  /** The number of its last message. */
  sent: number;
  /** The counters known to the node, in the order of APPS. */
  accounts: { granted: number; returned: number; balance: number }[];
  last?: Message;
}

/** A message and its first reply. */
interface Message {
  shard: number;
  send(): Promise<{ code: string; apps: { app: string; granted: number }[] }>;
  sender: { node: string; epoch: number; seq: number };
  answer: unknown;
}

/** Runs a history. Throws BrokenPromise if a reply contradicts the model. */
export async function play(store: DrivenStore, clusterId: string, steps: Step[], shards = 1): Promise<void> {
  store.clock.now = START - NEW_STORE_SECONDS * SECOND;
  const cluster = { id: clusterId, ...CLUSTER, shards };
  const quota = createQuota(store, cluster);
  const model = createModel(cluster, APPS, store.clock.now);
  const startNodes = (): SimulatedNode[] =>
    NODES.map((name) => ({ name, epoch: 1, seq: 0, sent: 0, accounts: fresh() }));
  /** Which apps are in the same messages: to each shard a node is another one, with its own epoch and numbers. */
  const parts = groupByShard(shards).map((places) => ({ places, nodes: startNodes() }));
  const nodeOf = (index: number, place: number) => parts.find(({ places }) => places.includes(place))!.nodes[index]!;
  const sent: Message[] = [];
  const operations = new Map<string, unknown>();
  let operationCount = 0;

  const nameOf = (one: { name: string; epoch: number }) => `${one.name}@${one.epoch}`;
  const debts = async () => Promise.all(APPS.map(async (policy) => (await quota.inspect(policy)).debt));

  function restart(one: SimulatedNode): void {
    one.epoch++;
    one.seq = 0;
    one.sent = 0;
    one.accounts = fresh();
    delete one.last;
  }

  /** An operation on a shard that changes the buckets of some apps. */
  function moveTo(shard: number, changed: string[]): void {
    model.moveTo(store.clock.now);
    const own = APPS.map(({ id }) => id).filter((id) => shardOf(id, shards) === shard);
    model.uses(own, changed);
  }

  /** Sends a message of a node about the apps with these indexes, and updates the model. */
  async function exchange(
    one: SimulatedNode,
    places: number[],
    ask: { need: number; want: number } | "report" | "leave",
    lost: boolean,
  ) {
    if (places.length === 0 && shards > 1) return;
    const shard = places.length === 0 ? 0 : shardOf(APPS[places[0]!]!.id, shards);
    const target = quota.shards[shard]!;
    const sender = { node: one.name, epoch: one.epoch, seq: ++one.seq };
    const counters: Counters[] = places.map((place) => {
      const { granted, returned, balance } = one.accounts[place]!;
      return { app: APPS[place]!.id, granted, returned, spent: granted - returned - balance };
    });
    const requests: GrantRequest[] = places.map((place, i) => {
      const held = Math.max(one.accounts[place]!.balance, 0);
      const need = typeof ask === "object" ? Math.max(ask.need - held, 0) : 0;
      const want = typeof ask === "object" ? Math.max(ask.want - held, need) : 0;
      return { ...counters[i]!, app: APPS[place]!, need, want };
    });
    const send = () =>
      typeof ask === "object" ? target.grant(sender, requests) : target.report(sender, requests, ask === "leave");
    const ids = places.map((place) => APPS[place]!.id);
    moveTo(shard, ids);
    if (one.seq > one.sent + 1) model.missed(nameOf(one));
    one.sent = one.seq;
    const before = await debts();
    const answer = await send();
    const after = await debts();
    const lent = places.map((place) => Math.max(Math.round((after[place]! - before[place]!) / 1.2), 0));
    const grants = typeof ask === "object" && answer.code === "ok";
    model.booked(nameOf(one), counters, grants ? answer.apps.map((grant) => grant.granted) : [], lent);
    // A closed epoch holds nothing: what a late report refunds is returned at once.
    if (answer.code === "epoch_closed") model.left(nameOf(one), ids);
    if (ask === "leave") model.left(nameOf(one), ids);
    const message: Message = { send, sender, answer, shard };
    one.last = message;
    sent.push(message);
    if (answer.code === "epoch_closed" || ask === "leave") return restart(one);
    if (!lost) learn(one, answer.apps);
  }

  function learn(one: SimulatedNode, answered: { app: string; granted: number }[]): void {
    for (const grant of answered) {
      const own = one.accounts[APPS.findIndex((policy) => policy.id === grant.app)]!;
      const added = grant.granted - own.granted;
      if (added > 0) {
        own.granted += added;
        own.balance += added;
      }
    }
  }

  async function perform(now: Step): Promise<void> {
    if (now.kind === "clock") {
      store.clock.now += now.seconds * SECOND;
    } else if (now.kind === "outage") {
      store.clock.now += now.seconds * SECOND;
      for (const [index, amount] of now.spent.entries()) nodeOf(index, now.app).accounts[now.app]!.balance -= amount;
      // Messages without a reply.
      for (const { nodes } of parts) for (const one of nodes) one.seq++;
    } else if (now.kind === "tick") {
      moveTo(0, []);
      await quota.emergencyCheck(1000, true);
    } else if (now.kind === "grant") {
      for (const { places, nodes } of parts) {
        const asked = places.filter((place) => (now.apps & (1 << place)) !== 0);
        await exchange(nodes[now.node]!, asked, { need: now.need, want: Math.max(now.need, now.want) }, now.lost);
      }
    } else if (now.kind === "report") {
      for (const { places, nodes } of parts) {
        const one = nodes[now.node]!;
        for (const own of one.accounts) {
          const given = Math.min(now.give, Math.max(own.balance, 0));
          own.balance -= given;
          own.returned += given;
        }
        await exchange(one, places, "report", now.lost);
      }
    } else if (now.kind === "spend") {
      const own = nodeOf(now.node, now.app).accounts[now.app]!;
      own.balance -= Math.min(now.amount, Math.max(own.balance, 0));
    } else if (now.kind === "overspend") {
      nodeOf(now.node, now.app).accounts[now.app]!.balance -= now.amount;
    } else if (now.kind === "refund") {
      const own = nodeOf(now.node, now.app).accounts[now.app]!;
      own.balance += Math.min(now.amount, own.granted - own.returned - own.balance);
    } else if (now.kind === "die") {
      for (const { nodes } of parts) restart(nodes[now.node]!);
    } else if (now.kind === "leave") {
      for (const { places, nodes } of parts) await exchange(nodes[now.node]!, places, "leave", false);
    } else if (now.kind === "retry") {
      for (const { nodes } of parts) {
        const one = nodes[now.node]!;
        if (one.last !== undefined) learn(one, await repeat(one.last, "the same message again"));
      }
    } else if (now.kind === "late") {
      const message = sent.at(-1 - now.back);
      if (message !== undefined) await repeat(message, "a message that came late");
    } else if (now.kind === "borrow" || now.kind === "repay") {
      // Another shard knows nothing of an operation id.
      const of = shards === 1 ? "" : `${now.app}-`;
      await borrowOrRepay(now.kind, now.app, now.amount, `${now.kind}-${of}${now.operation}`);
    } else if (now.kind === "emergency") {
      for (let shard = 0; shard < shards; shard++) moveTo(shard, []);
      const operation = `emergency-${++operationCount}`;
      await (now.on ? quota.emergencyOn(2000, "why", "who", operation) : quota.emergencyOff(operation));
    } else if (now.kind === "reconcile") {
      await reconcile(now.app, now.force);
    }
  }

  /** Repeats a message: the same reply if it was the node's last one, and no change in any case. */
  async function repeat(message: Message, what: string) {
    model.moveTo(store.clock.now);
    const answer = await message.send();
    const newest = sent
      .filter(({ sender }) => sender.node === message.sender.node && sender.epoch === message.sender.epoch)
      .filter(({ shard }) => shard === message.shard)
      .at(-1);
    if (newest === message && !isDeepStrictEqual(answer, message.answer)) {
      throw new BrokenPromise(`I5: ${what} got another answer: ${JSON.stringify([message.answer, answer])}`);
    }
    if (newest !== message && answer.code !== "stale_message") {
      throw new BrokenPromise(`I5: ${what} was not recognised: ${JSON.stringify(answer)}`);
    }
    return answer.apps;
  }

  async function borrowOrRepay(kind: "borrow" | "repay", place: number, amount: number, operation: string) {
    const policy = APPS[place]!;
    if (operations.has(operation)) model.moveTo(store.clock.now);
    else moveTo(shardOf(policy.id, shards), [policy.id]);
    const answer = await (kind === "borrow"
      ? quota.borrow(policy, amount, operation)
      : quota.repay(policy, amount, operation));
    const before = operations.get(operation);
    if (before !== undefined && !isDeepStrictEqual(before, answer)) {
      throw new BrokenPromise(`I5: ${operation} again got another answer`);
    }
    if (before === undefined && "borrowed" in answer) model.borrowed(policy.id, answer.borrowed);
    if (before === undefined && "repaid" in answer) model.repaid(policy.id, answer.repaid);
    operations.set(operation, answer);
  }

  async function reconcile(place: number, force: boolean) {
    const policy = APPS[place]!;
    moveTo(shardOf(policy.id, shards), []);
    // The listing and the reconcile run at the same time, so they agree on which nodes are dead.
    const dead = (await quota.of(policy.id).nodes()).filter((listed) => !listed.alive);
    const result = await quota.reconcile(policy, { tolerance: 0.1, force, operation: `r-${++operationCount}` });
    let expected = 0;
    for (const listed of dead) expected += model.recovered(listed.node, policy.id);
    if (result?.recoveredTokens !== expected) {
      throw new BrokenPromise(`I5: dead nodes held ${expected}, reconcile recovered ${result?.recoveredTokens}`);
    }
    if (result.driftBefore !== 0) throw new BrokenPromise(`I5: ${policy.id} drifted: ${JSON.stringify(result)}`);
  }

  while (store.clock.now < START) {
    await perform({ kind: "emergency", on: false });
    await perform({ kind: "clock", seconds: 1 });
  }
  for (const now of steps) {
    await perform(now);
    for (const policy of APPS) {
      const { granted, spent, returned } = await quota.inspect(policy);
      const books = model.totals(policy.id);
      if (!isDeepStrictEqual({ granted, spent, returned }, books)) {
        const both = JSON.stringify([books, { granted, spent, returned }]);
        throw new BrokenPromise(`I5: after ${JSON.stringify(now)} the books of ${policy.id} differ: ${both}`);
      }
    }
  }
}

/** The indexes of APPS, by shard. */
function groupByShard(shards: number): number[][] {
  const groups = new Map<number, number[]>();
  for (const [place, { id }] of APPS.entries()) {
    const shard = shardOf(id, shards);
    groups.set(shard, [...(groups.get(shard) ?? []), place]);
  }
  return [...groups.values()];
}

function fresh() {
  return APPS.map(() => ({ granted: 0, returned: 0, balance: 0 }));
}
