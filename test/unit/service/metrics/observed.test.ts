/** Whoever looks on changes nothing: admissions and stores answer as before, and are counted. */
import { describe, expect, it } from "vitest";
import type { Decision } from "../../../../src/limiter/decision.js";
import type { RateLimitVerdict } from "../../../../src/planes/node/http/rate-limit-admission.js";
import { observeAdmission } from "../../../../src/service/metrics/observed-admission.js";
import { createDecisionLog, createLog } from "../../../../src/service/process/log.js";
import { createEmbeddedStore } from "../../../../src/store/embedded/embedded-store.js";
import { StoreError } from "../../../../src/store/errors.js";
import { observeStore } from "../../../../src/store/observed-store.js";
import { createSimulatedClock } from "../../../support/simulated-clock.js";
import { decision, refusal } from "./telemetry-parts.js";

function verdict(made: Decision): RateLimitVerdict {
  return { allowed: made.allowed, headers: {}, status: 429, body: "", decision: made };
}

const arrival = { method: "GET", remoteAddress: "", contentLength: 0, headerValues: () => [] };

function observed(answers: (RateLimitVerdict | Promise<RateLimitVerdict>)[], tookMs: number[]) {
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
  const admission = observeAdmission({
    admission: {
      admit: () => answers.shift()!,
      settle: (_verdict, requestBytes, responseBytes) => void inner.push([requestBytes, responseBytes]),
    },
    telemetry: {
      decided: ({ code }, seconds, waited) => void counted.push([code, seconds, waited]),
      settled: (made) => void settled.push(made),
    },
    log: createDecisionLog({ log, perSecond: () => 5, clock: createSimulatedClock() }),
    slowMs: () => 20,
    // Every second look is the end of a decision.
    now() {
      if (looks++ % 2 === 1) now += tookMs.shift()!;
      return now;
    },
  });
  return { admission, lines, counted, settled, inner };
}

describe("an admission that is looked at", () => {
  it("answers the same, at once where it can, and has each decision counted and timed", async () => {
    const answers = [verdict(decision()), verdict(refusal()), Promise.resolve(verdict(decision({ source: "remote" })))];
    const { admission, counted } = observed([...answers], [0.002, 0.003, 5]);
    expect(admission.admit(arrival)).toBe(answers[0]);
    expect(admission.admit(arrival)).toBe(answers[1]);
    expect(await admission.admit(arrival)).toBe(await answers[2]);
    expect(counted).toEqual([
      ["ok", 0.000_002, false],
      ["quota_exhausted", 0.000_003, false],
      ["ok", 0.005, true],
    ]);
  });

  it("has refusals logged, those of dry runs as such, and what waited for long", async () => {
    const answers = [
      verdict(decision()),
      verdict(refusal()),
      verdict(refusal({ allowed: true, dryRun: true })),
      Promise.resolve(verdict(decision({ source: "remote" }))),
      Promise.resolve(verdict(refusal({ source: "remote" }))),
    ];
    const { admission, lines } = observed(answers, [50, 0, 0, 5, 30]);
    for (let i = 0; i < 5; i++) await admission.admit(arrival);
    expect(lines.map(({ msg, source, dry_run }) => [msg, source, dry_run])).toEqual([
      ["refused", "cached", undefined],
      ["would be refused", "cached", true],
      ["slow decision", "remote", undefined],
      ["refused", "remote", undefined],
    ]);
  });

  it("settles once, with what was counted", () => {
    const { admission, settled, inner } = observed([], []);
    const made = verdict(decision());
    admission.settle(made, 10, 20);
    expect(settled).toEqual([made.decision]);
    expect(inner).toEqual([[10, 20]]);
  });
});

describe("the lines of a flood", () => {
  it("can be limited anew", () => {
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

describe("a store that is looked at", () => {
  it("answers the same, and each call is told with its end and its time", async () => {
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

  it("hands on the very answer, errors included", async () => {
    const answer = Promise.reject(new StoreError("timeout", "too late"));
    const store = observeStore({ ...createEmbeddedStore(), run: () => answer }, { called: () => {} });
    const got = store.run("grant", [], []);
    expect(got).toBe(answer);
    await expect(got).rejects.toMatchObject({ kind: "timeout" });
  });
});
