/** The audit log contains no secrets and no control characters, and rejected calls cannot flood it. */
import { describe, expect, it } from "vitest";
import { type AuditEntry, createAudit } from "../../../../src/service/control/access/audit.js";
import { redacted } from "../../../../src/service/operations/redact.js";
import { createSimulatedClock } from "../../../support/simulated-clock.js";

const entry: AuditEntry = {
  action: "emergency",
  operator: "alice",
  verified: false,
  reason: "why",
  client: "10.0.0.1",
  outcome: "done",
  status: 200,
  why: undefined,
  parameters: undefined,
  before: undefined,
  after: undefined,
  changes: undefined,
};

function audit() {
  const lines: [Record<string, unknown>, string][] = [];
  const write = (fields: Record<string, unknown>, message: string) => void lines.push([fields, message]);
  const clock = createSimulatedClock();
  return { ...createAudit({ debug: write, info: write, warn: write, error: write }, clock), lines, clock };
}

describe("a redacted copy", () => {
  it.each([
    ["secrets", { admin_token: "s", api_keys: { a: ["k"] }, store: "redis://u:p@h", password: 1, x_secret: 2 }],
    ["secrets deep down", { a: [{ b: { plane_token: "s", API_KEY: "k", tokens: { token: "x" } } }] }],
  ])("hides %s", (_what, value) => {
    const text = JSON.stringify(redacted(value));
    expect(text).toContain("(hidden)");
    expect(text).not.toMatch(/"[sk]"|redis:|:1|:2|"x"/);
  });

  it("keeps values with similar names", () => {
    expect(redacted({ fail_open_tokens: 5, l2_tokens: 6, monkey: 7 })).toMatchObject({
      fail_open_tokens: 5,
      monkey: 7,
    });
  });

  it("escapes control characters, in names as well", () => {
    expect(JSON.stringify(redacted({ "a\u001b[31m": "b\nc\u009b" }))).toBe('{"a\\\\u001b[31m":"b\\\\u000ac\\\\u009b"}');
  });

  it("is bounded in length, width and depth", () => {
    let deep: unknown = "bottom";
    for (let i = 0; i < 100; i++) deep = { deep };
    const wide = Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`app${i}`, "x".repeat(5_000)]));
    expect(JSON.stringify(redacted({ deep, wide, list: Array(9_999).fill(1) })).length).toBeLessThan(20_000);
    expect(redacted({ list: Array(60).fill(1) })).toMatchObject({ list: expect.arrayContaining(["and 10 more"]) });
  });
});

describe("changes", () => {
  it("are all logged", () => {
    const { changed, lines } = audit();
    for (let i = 0; i < 100; i++) changed({ ...entry, parameters: { level: 2 }, before: 1, after: 2 });
    expect(lines).toHaveLength(100);
    expect(lines[0]).toEqual([
      {
        ...{ audit: true, action: "emergency", operator: "alice", reason: "why", client: "10.0.0.1", outcome: "done" },
        verified: false,
        ...{ status: 200, parameters: { level: 2 }, before: 1, after: 2 },
      },
      "emergency: done",
    ]);
  });
});

describe("rejected calls", () => {
  it("get ten lines per second, the rest are counted", async () => {
    const { rejected, lines, clock } = audit();
    const stranger: AuditEntry = { ...entry, outcome: "refused", status: 401, why: "wrong_token" };
    for (let i = 0; i < 500; i++) rejected(stranger);
    expect(lines).toHaveLength(10);
    await clock.advance(1_000);
    expect(lines.at(-1)?.[0]).toEqual({ audit: true, suppressed: 490 });
    rejected(stranger);
    expect(lines).toHaveLength(12);
    await clock.advance(5_000);
    expect(lines).toHaveLength(12);
  });
});

describe("the list of changes", () => {
  const change = { path: "apps.video.burst", before: "20", after: "30" };

  it("has options with their old and new values; other changes the fields of the state that differ", () => {
    const { changed, recent, lines } = audit();
    changed({ ...entry, action: "reload", after: { config_version: "b" }, changes: [change] });
    changed({ ...entry, before: { remaining: 3, debt: 1 }, after: { remaining: 20, debt: 1, added: 17 } });
    expect(recent().map(({ changes }) => changes)).toEqual([
      [
        { path: "remaining", before: "3", after: "20" },
        { path: "added", before: null, after: "17" },
      ],
      [change],
    ]);
    expect(lines[0]![0]).toMatchObject({ changes: ["apps.video.burst: 20 → 30"] });
    expect(lines[1]![0]).not.toHaveProperty("changes");
  });

  it("has changes of the file or the store layer without an operator, and those of an operator once", () => {
    const { changed, followed, recent } = audit();
    followed("a", [change]);
    followed("b", [change]);
    changed({ ...entry, action: "reload", after: { config_version: "b" }, changes: [change] });
    expect(recent().map(({ action, operator }) => [action, operator])).toEqual([
      ["reload", "alice"],
      ["config.followed", ""],
    ]);
    expect(recent()[1]).toMatchObject({ changes: [change], outcome: "done" });
  });
});
