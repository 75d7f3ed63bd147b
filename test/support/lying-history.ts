/**
 * Plays a history with a lying node. Its lies may cost tokens, but must not create any. The cluster's bucket does not refill,
 * so it shows every token that was created.
 */
import { isDeepStrictEqual } from "node:util";
import { InvalidArgument } from "../../src/store/errors.js";
import { type DrivenStore, START } from "./driven-store.js";
import { type Change, HONEST, LIAR_APPS, type Lie, type LyingStep, PLACES } from "./lying-steps.js";
import { BrokenPromise } from "./quota-model.js";
import { createQuota, type GrantRequest } from "./split-quota.js";

/** Whole numbers of micro-tokens are compared, because sums of fractions are not exact. */
const MICRO = 1_000_000;
const micro = (tokens: number) => Math.round(tokens * MICRO);
const LIAR_CLUSTER = { capacity: 100_000, rate: 0, nodeTtlMs: 3000 };

interface HonestNode {
  name: string;
  epoch: number;
  seq: number;
  accounts: { known: number; granted: number; spent: number; returned: number }[];
}

interface Claim {
  granted: number;
  spent: number;
  returned: number;
}

const noAccounts = () => PLACES.map(() => ({ known: 0, granted: 0, spent: 0, returned: 0 }));
const noClaims = (): Claim[] => PLACES.map(() => ({ granted: 0, spent: 0, returned: 0 }));
const largest = (value: number) => Math.min(Math.max(value, 0), 2 ** 53 - 1);

function changed({ granted, spent, returned }: Claim, change: Change, by: number): Claim {
  if (change === "granted") return { granted: largest(granted + by), spent, returned };
  if (change === "returned") return { granted, spent, returned: largest(returned + by) };
  if (change === "granted and returned")
    return { granted: largest(granted + by), spent, returned: largest(returned + by) };
  if (change === "granted and spent") return { granted: largest(granted + by), spent: largest(spent + by), returned };
  if (change === "spent") return { granted, spent: largest(spent + by), returned };
  if (change === "less spent") return { granted, spent: largest(spent - by), returned };
  if (change === "all spent") return { granted, spent: largest(granted - returned), returned };
  if (change === "all returned") return { granted, spent: 0, returned: granted };
  return { granted: 0, spent: 0, returned: 0 };
}

const placesIn = (bits: number) => PLACES.filter((place) => (bits & (1 << place)) !== 0);

/** Runs a history. Throws BrokenPromise when a lie has created tokens. */
export async function playLies(store: DrivenStore, clusterId: string, steps: LyingStep[]): Promise<void> {
  store.clock.now = START;
  const quota = createQuota(store, { id: clusterId, ...LIAR_CLUSTER });
  const honest: HonestNode[] = HONEST.map((name) => ({ name, epoch: 1, seq: 0, accounts: noAccounts() }));
  /** What nodes that have left took from the buckets and spent, by app. */
  const gone = PLACES.map(() => 0);
  const liar = { epoch: 1, seq: 0, claims: noClaims() };
  const instants: { at: number; spent: number[]; liarHas: number }[] = [];
  let operations = 0;

  const spentBy = (place: number) => honest.reduce((sum, { accounts }) => sum + accounts[place]!.spent, gone[place]!);
  /** Tokens that left the buckets for honest nodes and did not come back. */
  const takenBy = (place: number) =>
    honest.reduce((sum, { accounts }) => {
      const { granted, returned } = accounts[place]!;
      return sum + granted - returned;
    }, gone[place]!);

  async function tell(one: HonestNode, places: number[], ask: { need: number; want: number } | "report" | "leave") {
    const sender = { node: one.name, epoch: one.epoch, seq: ++one.seq };
    const requests: GrantRequest[] = places.map((place) => {
      const { known, spent, returned } = one.accounts[place]!;
      const asked = typeof ask === "object" ? ask : { need: 0, want: 0 };
      return { app: LIAR_APPS[place]!, granted: known, spent, returned, ...asked };
    });
    const reply =
      typeof ask === "object"
        ? await quota.grant(sender, requests)
        : await quota.report(sender, requests, ask === "leave");
    if (reply.code !== "ok") throw new BrokenPromise(`an honest message got ${reply.code}`);
    places.forEach((place, i) => {
      one.accounts[place]!.granted = reply.apps[i]!.granted;
    });
  }

  function learn(one: HonestNode): void {
    for (const account of one.accounts) account.known = account.granted;
  }

  async function actHonestly(now: Exclude<LyingStep, Lie | { kind: "clock" | "reconcile" }>): Promise<void> {
    const one = honest[now.node]!;
    if (now.kind === "ask") {
      await tell(one, placesIn(now.apps), { need: now.need, want: Math.max(now.need, now.want) });
      if (!now.lost) learn(one);
      return;
    }
    if (now.kind === "leave") {
      await tell(one, PLACES, "leave");
      one.accounts.forEach(({ spent }, place) => {
        gone[place]! += spent;
      });
      Object.assign(one, { epoch: one.epoch + 1, seq: 0, accounts: noAccounts() });
      return;
    }
    const account = one.accounts[now.app]!;
    const balance = account.known - account.spent - account.returned;
    if (now.kind === "spend") account.spent += Math.min(now.amount, balance);
    else if (now.kind === "refund") account.spent -= Math.min(now.amount, account.spent);
    else {
      account.returned += Math.min(now.amount, balance);
      await tell(one, PLACES, "report");
    }
  }

  /** What a message changes, whatever it is about. */
  const state = async () => [...(await Promise.all(LIAR_APPS.map(quota.inspect))), ...(await quota.nodes())];

  async function sendLie({ script, changes, apps, epoch, seq, need, want }: Lie): Promise<void> {
    if (epoch === "new") Object.assign(liar, { epoch: liar.epoch + 1, seq: 0 });
    if (epoch === "old" && liar.epoch > 1) liar.epoch--;
    for (const { app: place, change, by } of changes) liar.claims[place] = changed(liar.claims[place]!, change, by);
    const number = { next: liar.seq + 1, same: liar.seq, older: liar.seq - 1, far: liar.seq + 1000 }[seq];
    liar.seq = Math.max(liar.seq, number);
    const sender = { node: "liar", epoch: liar.epoch, seq: number };
    const requests = placesIn(apps).map((place) => ({ ...liar.claims[place]!, app: LIAR_APPS[place]!, need, want }));
    const before = await state();
    try {
      if (script === "grant") await quota.grant(sender, requests);
      else if (script === "final")
        await quota.grant(
          sender,
          requests.map((request) => ({ ...request, finalReport: true })),
        );
      else await quota.report(sender, requests, script === "leave");
    } catch (error) {
      if (!(error instanceof InvalidArgument)) throw error;
      if (isDeepStrictEqual(await state(), before)) return;
      throw new BrokenPromise(`a rejected message changed something: ${JSON.stringify({ sender, requests })}`);
    }
  }

  async function perform(now: LyingStep): Promise<void> {
    if (now.kind === "clock") {
      store.clock.now += now.ms * 1000;
      for (const { name, epoch } of honest) await quota.heartbeat({ node: name, epoch });
    } else if (now.kind === "reconcile") {
      const operation = `r-${++operations}`;
      await quota.reconcile(LIAR_APPS[now.app]!, { tolerance: 0.1, force: now.force, operation });
    } else if (now.kind === "lie") await sendLie(now);
    else await actHonestly(now);
  }

  async function check(after: LyingStep): Promise<void> {
    const fail = (what: string) => {
      throw new BrokenPromise(`${what} after ${JSON.stringify(after)}`);
    };
    let liarHas = LIAR_CLUSTER.capacity;
    for (const [place, limits] of LIAR_APPS.entries()) {
      const { tokens, clusterTokens } = await quota.inspect(limits);
      const elapsed = store.clock.now - START;
      const taken = takenBy(place);
      if (place === 0) liarHas -= clusterTokens;
      liarHas -= taken;
      if (tokens > limits.burst) fail(`the bucket of ${limits.id} holds ${tokens}`);
      if (micro(Math.max(tokens, 0) + taken - limits.burst) > limits.guaranteed * elapsed) {
        fail(`${limits.id} has ${tokens} tokens although honest nodes took ${taken} in ${elapsed} µs`);
      }
    }
    if (liarHas < 0) fail(`the cluster has ${-liarHas} tokens too many`);
    instants.push({ at: store.clock.now, spent: PLACES.map(spentBy), liarHas });
  }

  /** What the liar had when the period began, it may have claimed back. */
  function checkPeriods(): void {
    for (const [place, { id, burst, guaranteed }] of LIAR_APPS.entries()) {
      for (const [i, from] of instants.entries()) {
        for (const to of instants.slice(i + 1)) {
          const spent = to.spent[place]! - from.spent[place]!;
          const most = burst + (guaranteed * (to.at - from.at)) / MICRO + from.liarHas;
          if (micro(spent) > micro(most))
            throw new BrokenPromise(`honest nodes spent ${spent} of ${id}, at most ${most} were allowed`);
        }
      }
    }
  }

  for (const now of steps) {
    await perform(now);
    await check(now);
  }
  checkPeriods();
}
