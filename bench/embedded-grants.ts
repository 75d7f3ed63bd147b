/** Compares grants per second of the embedded store with empty async calls. */

import { createEmbeddedStore } from "../src/store/embedded/embedded-store.js";
import { createQuota, type GrantRequest } from "../test/support/split-quota.js";
import { noBudget, type Result, result } from "./results.js";
import { alternate, median } from "./rounds.js";

const ROUNDS = 11;
const GRANTS = 10_000;
const EMPTY_CALLS = 200_000;
const WANT = 100;

export async function embeddedGrants(): Promise<Result[]> {
  const store = createEmbeddedStore();
  const quota = createQuota(store, { id: "bench", capacity: 1e9, rate: 1e9, nodeTtlMs: 10_000 });
  const app = { id: "app", guaranteed: 1e9, burst: 1e9, priority: 1, borrow: true };
  let seq = 0;
  let granted = 0;

  async function grants(): Promise<number> {
    const started = performance.now();
    for (let i = 0; i < GRANTS; i++) {
      seq += 1;
      const request: GrantRequest = { app, granted, spent: granted, returned: 0, need: 10, want: WANT };
      const answer = await quota.grant({ node: "bench-node", epoch: 1, seq }, [request]);
      granted = answer.apps[0]!.granted;
    }
    const perSecond = (GRANTS * 1000) / (performance.now() - started);
    if (granted !== seq * WANT) throw new Error(`the embedded store granted ${granted} of ${seq * WANT}`);
    return perSecond;
  }

  async function emptyCalls(): Promise<number> {
    let sum = 0;
    const started = performance.now();
    for (let i = 0; i < EMPTY_CALLS; i++) sum += await nothing(i);
    const perSecond = (EMPTY_CALLS * 1000) / (performance.now() - started);
    if (sum !== (EMPTY_CALLS * (EMPTY_CALLS - 1)) / 2) throw new Error("the empty calls returned a wrong sum");
    return perSecond;
  }

  const pairs = await alternate(ROUNDS, grants, emptyCalls);
  await store.close();
  return [
    result("embedded-grants", median(pairs.map(([ours]) => ours)), "grants/s", noBudget),
    result(
      "embedded-grants-ratio",
      median(pairs.map(([ours, empty]) => ours / empty)),
      "÷ empty async calls/s",
      noBudget,
    ),
  ];
}

async function nothing(value: number): Promise<number> {
  return value;
}
