/** Observed limiters and stores return the same results, and every call is counted. */
import { describe, expect, it } from "vitest";
import type { Decision } from "../../../../src/limiter/decision.js";
import type { Limiter } from "../../../../src/limiter/limiter.js";
import { createDecisionLog } from "../../../../src/service/metrics/decision-log.js";
import { createDecisionObserver } from "../../../../src/service/metrics/decision-observer.js";
import { createLog } from "../../../../src/service/process/log.js";
import { createEmbeddedStore } from "../../../../src/store/embedded/embedded-store.js";
import { StoreError } from "../../../../src/store/errors.js";
import { observeStore } from "../../../../src/store/observed-store.js";
import { createSimulatedClock } from "../../../support/simulated-clock.js";
import { decision, refusal } from "./metrics-parts.js";

function observed(answers: (Decision | Promise<Decision>)[], tookMs: number[]) {
  const lines: Record<string, unknown>[] = [];
  const log = createLog({
    level: "info",
    node: "n",
    destination: { write: (line) => void lines.push(JSON.parse(line)) },
  });
  const counted: [code: string, seconds: number, waited: boolean | undefined][] = [];
  const settled: Decision[] = [];
  const inner: [number, number][] = [];
  let now = 0;
  let looks = 0;
  const observer = createDecisionObserver({
    metrics: {
      decided: ({ code }, seconds, waited) => void counted.push([code, seconds, waited]),
      settled: (made) => void settled.push(made),
    },
    log: createDecisionLog({ log, perSecond: () => 5, clock: createSimulatedClock() }),
    slowMs: () => 20,
    // Every second call is the end of a decision.
    now() {
      if (looks++ % 2 === 1) now += tookMs.shift()!;
      return now;
    },
  });
  const next = () => answers.shift()!;
  const limiter = observer.observe({
    check: next,
    take: next,
    limits: { take: next },
    settle: (_decision: Decision, requestBytes: number, responseBytes: number) =>
      void inner.push([requestBytes, responseBytes]),
  } as unknown as Limiter);
  return { limiter, observer, lines, counted, settled, inner };
}

describe("an observed limiter", () => {
  it("returns the same decisions, immediately where possible, and counts and times each of them", async () => {
    const answers = [decision(), refusal(), Promise.resolve(decision({ source: "remote" })), decision()];
    const { limiter, counted } = observed([...answers], [0.002, 0.003, 5, 1]);
    expect(limiter.check("video", "GET", 0)).toBe(answers[0]);
    expect(limiter.take("video", 1)).toBe(answers[1]);
    expect(await limiter.check("video", "GET", 0)).toBe(await answers[2]);
    expect(limiter.limits.take({} as never, 1)).toBe(answers[3]);
    expect(counted).toEqual([
      ["ok", 0.000_002, false],
      ["quota_exhausted", 0.000_003, false],
      ["ok", 0.005, true],
      ["ok", 0.001, false],
    ]);
  });

  it("logs refusals, marks those of dry runs, and logs decisions that waited for long", async () => {
    const answers = [
      decision(),
      refusal(),
      refusal({ allowed: true, dryRun: true }),
      Promise.resolve(decision({ source: "remote" })),
      Promise.resolve(refusal({ source: "remote" })),
    ];
    const { limiter, lines } = observed(answers, [50, 0, 0, 5, 30]);
    for (let i = 0; i < 5; i++) await limiter.check("video", "GET", 0);
    expect(lines.map(({ msg, source, dry_run }) => [msg, source, dry_run])).toEqual([
      ["refused", "cached", undefined],
      ["would be refused", "cached", true],
      ["slow decision", "remote", undefined],
      ["refused", "remote", undefined],
    ]);
  });

  it("settles once, with the sizes it was given", () => {
    const { limiter, settled, inner } = observed([], []);
    const made = decision();
    limiter.settle(made, 10, 20);
    expect(settled).toEqual([made]);
    expect(inner).toEqual([[10, 20]]);
  });

  it("counts and logs requests that are refused before they reach the limiter", () => {
    const { observer, counted, lines } = observed([], []);
    observer.refused(refusal({ app: "", code: "invalid_identity", source: "local" }));
    expect(counted).toEqual([["invalid_identity", 0, false]]);
    expect(lines).toMatchObject([{ msg: "refused", reason: "invalid_identity" }]);
  });
});

describe("the number of log lines", () => {
  it("can be changed at run time", () => {
    let most = 1;
    const lines: string[] = [];
    const log = createLog({ level: "info", node: "n", destination: { write: (line) => void lines.push(line) } });
    const decisions = createDecisionLog({ log, perSecond: () => most, clock: createSimulatedClock() });
    for (let i = 0; i < 5; i++) decisions.refused(refusal());
    expect(lines).toHaveLength(1);
    most = 3;
    for (let i = 0; i < 5; i++) decisions.refused(refusal());
    expect(lines).toHaveLength(3);
  });
});

describe("an observed store", () => {
  it("replies the same, and reports outcome and duration of each call", async () => {
    const calls: [string, string, number][] = [];
    let now = 0;
    const plain = createEmbeddedStore();
    const store = observeStore(plain, { called: (...call) => void calls.push(call) }, () => {
      now += 2;
      return now;
    });
    expect([store.kind, store.hashTags]).toEqual([plain.kind, plain.hashTags]);
    await store.run("nodes", ["cluster", "nodes"], ["1000", "1000000", "5000"]);
    await store.publish("channel", "hello");
    (await store.subscribe("channel", () => {}))();
    expect(await store.inspect()).toMatchObject({ kind: "embedded", callsInFlight: 0, mostCallsInFlight: 0 });
    await store.close();
    await expect(store.run("nodes", [], [])).rejects.toMatchObject({ kind: "closed" });
    expect(calls).toEqual([
      ["nodes", "ok", 0.002],
      ["publish", "ok", 0.002],
      ["subscribe", "ok", 0.002],
      ["inspect", "ok", 0.002],
      ["nodes", "closed", 0.002],
    ]);
  });

  it("returns the same promise, errors included", async () => {
    const answer = Promise.reject(new StoreError("timeout", "too late"));
    const store = observeStore({ ...createEmbeddedStore(), run: () => answer }, { called: () => {} });
    const got = store.run("grant", [], []);
    expect(got).toBe(answer);
    await expect(got).rejects.toMatchObject({ kind: "timeout" });
  });
});
