/** A history of grant calls that reaches every branch of the script: the same one each time. */

export type Fields = Record<string, string | number>;

export interface GrantStep {
  /** Microseconds on the store's clock. */
  now: number;
  node: string;
  apps: string[];
  args: (string | number)[];
  /** Keys to send; all unless fewer are wanted. */
  keyCount: number;
  /** Done to the store before the call. */
  forgetLedger: boolean;
  editCluster?: Fields;
  editLedger?: Fields;
}

const CLUSTER = [2000, 500_000_000, 3000];
const START = 1_700_000_000_000_000;
const CALLS = 600;

/** Numbers that the seed alone decides (mulberry32), so that a difference is found again. */
function numbersFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296) * below);
  };
}

export function grantHistory(): GrantStep[] {
  return [...randomCalls(), ...borrowingCalls(), ...limitCalls(), ...refusedCalls()];
}

/** Nodes that spend, return, lose answers and ledgers, through emergencies and steps of the clock. */
function randomCalls(): GrantStep[] {
  const pick = numbersFrom(20260729);
  const chance = (percent: number) => pick(100) < percent;
  const steps: GrantStep[] = [];
  const seqs = new Map<string, number>();
  let now = START;
  for (let call = 0; call < CALLS; call++) {
    now += chance(5) ? -pick(2_000_000) : chance(10) ? pick(20_000_000) : pick(300_000);
    const node = `node-${pick(3)}@${pick(2)}`;
    const first = pick(4);
    const apps = Array.from({ length: chance(10) ? 10 : pick(4) }, (_, i) => `app-${first + i}`);
    const before = seqs.get(node) ?? 0;
    const seq = chance(10) ? Math.max(before, 1) : chance(5) ? Math.max(before - 1, 1) : before + 1;
    seqs.set(node, Math.max(seq, before));
    const step: GrantStep = {
      now,
      node,
      apps,
      args: [...CLUSTER, seq, node, ...apps.flatMap((app) => appRequest(app, call, pick))],
      keyCount: 3 + apps.length,
      forgetLedger: chance(2),
    };
    if (chance(4)) step.editCluster = { em_source: "operator", em_until: chance(50) ? 0 : now + pick(3_000_000) };
    else if (chance(8)) step.editCluster = { em_source: "none", em_until: 0 };
    else if (chance(1)) step.editCluster = { tokens: "not a number", at: "nan", clock: "inf" };
    if (chance(3)) step.editLedger = { closed: chance(50) ? 1 : 0 };
    steps.push(step);
  }
  return steps;
}

function appRequest(app: string, call: number, pick: (below: number) => number): (string | number)[] {
  const granted = pick(60) * (1 + Math.floor(call / 20));
  const returned = pick(4) === 0 ? pick(granted + 1) : 0;
  const spent = pick(granted + 40);
  const need = pick(20) === 0 ? 10_000 : pick(5) === 0 ? pick(300) : pick(3);
  const rate = [100_000_000, 37_123_457, 0, 400_000_000][pick(4)]!;
  return [app, 200 + pick(3) * 100, rate, pick(5), 0, granted, spent, returned, need, pick(400), pick(2)];
}

/** Apps at the edge of what they may borrow, and a cluster at the edge of what it lends. Each node asks once. */
function borrowingCalls(): GrantStep[] {
  const pick = numbersFrom(7);
  const steps: GrantStep[] = [];
  let now = START + 1_000_000_000;
  for (let call = 0; call < CALLS; call++) {
    now += pick(10) === 0 ? pick(4_000_000) : pick(150_000);
    const node = `borrower-${call}@1`;
    const app = `borrowing-${pick(3)}`;
    const request = [app, 200, 100_000_000, 1, 0, 0, 0, 0, 1 + pick(120), 0, 1];
    const args = [500 + pick(3) * 100, 250_000_000, 3000, 1, node, ...request];
    // No one borrows in the emergency that the calls before may have left.
    const editCluster = { em_source: "none" };
    steps.push({ now, node, apps: [app], args, keyCount: 4, forgetLedger: false, editCluster });
  }
  return steps;
}

/** Limits that come and go: nodes say their last word, some of them twice, some while they still hold tokens. */
function limitCalls(): GrantStep[] {
  const pick = numbersFrom(11);
  const steps: GrantStep[] = [];
  let now = START + 2_000_000_000;
  for (let call = 0; call < CALLS; call++) {
    now += pick(400_000);
    const node = `limited-${pick(3)}@1`;
    const app = `limit-${pick(3)}`;
    const granted = pick(4) * 10;
    const spent = pick(granted + 1);
    const asks = pick(2);
    // Far from full at all times: what expires, does so by Redis's own clock.
    const request = [app, 1_000_000, 0, 1, 300_000_000, granted, spent, granted - spent, asks * 1_000, asks * 2_000];
    const args = [...[1_000_000_000, 0, 3000], call + 1, node, ...request, pick(3)];
    steps.push({ now, node, apps: [app], args, keyCount: 4, forgetLedger: false, editCluster: { em_source: "none" } });
  }
  return steps;
}

/** One call for each argument that can be wrong, among them the largest that are right. */
function refusedCalls(): GrantStep[] {
  const apps = ["app-0", "app-1"];
  const good = [...CLUSTER, 1_000_000, "node-9@1", ...apps.flatMap((app) => [app, 500, 1000, 1, 0, 9, 5, 2, 3, 4, 1])];
  const wrong = ["", "-1", "1.5", "nan", "inf", "1e3", "0x10", " 1", "1 ", "12345678901234567", "x y", "z".repeat(301)];
  const large = [
    "0",
    "01",
    "1,1",
    "00000000000000000001",
    "9007199254740991",
    "9007199254740992",
    "1000000000",
    "1000000000000001",
    "ok-id",
  ];
  const base = { now: START + 10_000_000_000, node: "node-9@1", apps, forgetLedger: false };
  const steps: GrantStep[] = [{ ...base, args: good, keyCount: 5 }];
  for (let place = 0; place < good.length; place++) {
    for (const value of [...wrong, ...large]) steps.push({ ...base, args: good.with(place, value), keyCount: 5 });
  }
  const twice = good.with(16, "app-0");
  const tooMany = [...CLUSTER, 2_000_000, "node-9@1"];
  for (const args of [[], CLUSTER, good.slice(0, -1), [...good, 1], twice, tooMany]) {
    steps.push({ ...base, args, keyCount: 5 });
  }
  for (const keyCount of [0, 2, 3, 4]) steps.push({ ...base, args: good, keyCount });
  return steps;
}
