/** Logs: sampled refusals, no secrets, no raw control characters. */
import { describe, expect, it } from "vitest";
import type { Decision } from "../../../../src/limiter/limiter.js";
import { createDecisionLog } from "../../../../src/service/metrics/decision-log.js";
import { createLog } from "../../../../src/service/process/log.js";
import { createSimulatedClock } from "../../../support/simulated-clock.js";

function recorder() {
  const written: string[] = [];
  const log = createLog({ level: "info", node: "n", destination: { write: (line) => void written.push(line) } });
  return { log, written, lines: () => written.map((line) => JSON.parse(line) as Record<string, unknown>) };
}

function decision(of: Partial<Decision> = {}): Decision {
  return {
    ...{ allowed: false, code: "quota_exhausted", dryRun: false, app: "video", method: "GET", cost: 5, balance: 0 },
    ...{ remaining: 0, limit: 100, rate: 10, retryAfterMs: 500, source: "cached" as const },
    ...of,
  };
}

describe("a line", () => {
  it("is JSON with level, time and node", () => {
    const { log, lines } = recorder();
    log.warn({ app: "video" }, "hello");
    expect(lines()).toEqual([{ level: "warn", time: expect.any(String), node: "n", app: "video", msg: "hello" }]);
  });

  it("has no control characters, including those that JSON does not escape", () => {
    const { log, written } = recorder();
    log.info({ path: "a\u001b[31m\u009b\u2028b\r\nc", err: new Error("broken\u009b\nline") }, "x");
    expect(written).toHaveLength(1);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
    expect(written[0]?.trimEnd()).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/);
    expect(written[0]).toContain("\\u001b");
  });

  it("contains no secret", () => {
    const { log, written } = recorder();
    const secrets = { password: "hunter2", authorization: "Bearer hunter2", plane_token: "hunter2", store: "hunter2" };
    log.info({ ...secrets, control: secrets, headers: secrets }, "x");
    expect(written[0]).not.toContain("hunter2");
  });
});

describe("a refusal", () => {
  it("is logged with app, reason, cost and source", () => {
    const { log, lines } = recorder();
    const decisions = createDecisionLog({ log, perSecond: () => 5, slowMs: () => 20, clock: createSimulatedClock() });
    decisions.decided(decision(), 0, false);
    expect(lines()).toMatchObject([
      { msg: "refused", app: "video", reason: "quota_exhausted", cost: 5, source: "cached", retry_after_ms: 500 },
    ]);
  });

  it("in a flood is counted by app and second", async () => {
    const { log, lines } = recorder();
    const clock = createSimulatedClock();
    const decisions = createDecisionLog({ log, perSecond: () => 5, slowMs: () => 20, clock });
    for (let i = 0; i < 1000; i++) decisions.decided(decision(), 0, false);
    decisions.decided(decision({ app: "audio" }), 0, false);
    expect(lines().filter(({ app }) => app === "video")).toHaveLength(5);
    expect(lines().filter(({ app }) => app === "audio")).toHaveLength(1);
    await clock.advance(2_000);
    expect(lines().at(-1)).toMatchObject({ app: "video", kind: "refused", suppressed: 995 });
    const before = lines().length;
    await clock.advance(5_000);
    expect(lines()).toHaveLength(before);
    decisions.decided(decision(), 0, false);
    expect(lines()).toHaveLength(before + 1);
  });

  it("that was suppressed is counted at the end", () => {
    const { log, lines } = recorder();
    const decisions = createDecisionLog({ log, perSecond: () => 0, slowMs: () => 20, clock: createSimulatedClock() });
    decisions.decided(decision(), 0, false);
    decisions.close();
    expect(lines()).toMatchObject([{ app: "video", suppressed: 1 }]);
  });

  it("of a dry run is marked, and a decision that waited for long is logged, whatever it is", () => {
    const { log, lines } = recorder();
    const clock = createSimulatedClock();
    const decisions = createDecisionLog({ log, perSecond: () => 5, slowMs: () => 20, clock });
    const admitted = { allowed: true, code: "ok", source: "remote" } as const;
    decisions.decided(decision(admitted), 50, false);
    decisions.decided(decision({ allowed: true, dryRun: true }), 0, false);
    decisions.decided(decision(admitted), 5, true);
    decisions.decided(decision(admitted), 30, true);
    decisions.decided(decision({ source: "remote" }), 30, true);
    expect(lines().map(({ msg, source, dry_run }) => [msg, source, dry_run])).toEqual([
      ["would be refused", "cached", true],
      ["slow decision", "remote", undefined],
      ["slow decision", "remote", undefined],
      ["refused", "remote", undefined],
    ]);
  });

  it("is logged more often as soon as the configuration allows it", () => {
    const { log, lines } = recorder();
    let most = 1;
    const decisions = createDecisionLog({
      log,
      perSecond: () => most,
      slowMs: () => 20,
      clock: createSimulatedClock(),
    });
    for (let i = 0; i < 5; i++) decisions.decided(decision(), 0, false);
    expect(lines()).toHaveLength(1);
    most = 3;
    for (let i = 0; i < 5; i++) decisions.decided(decision(), 0, false);
    expect(lines()).toHaveLength(3);
  });
});
