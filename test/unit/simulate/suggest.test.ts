/** `tollgate simulate --suggest`: the lowest rates for a log, and what the limiter refuses with them. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runCommandLine } from "../../../src/cli/command-line.js";

const START = Date.parse("2026-01-01T00:00:00Z");
let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "tollgate-suggest-"));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

function file(name: string, content: string): string {
  const path = join(directory, name);
  writeFileSync(path, content);
  return path;
}

interface Line {
  atMs: number;
  app: string;
  user?: string;
  path?: string;
  bytes?: number;
}

function lineOf({ atMs, app, user = "ann", path = "/", bytes = 0 }: Line): string {
  const time = new Date(START + atMs).toISOString();
  return JSON.stringify({ time, method: "GET", path, app_id: app, user, request_bytes: 0, response_bytes: bytes });
}

const CONFIG = `
apps: { steady: { guaranteed: 1000 }, bursts: { guaranteed: 1000 }, costly: { guaranteed: 1000 } }
limits:
  - { name: per-user, key: [user], rate: 5/min, match: { path: [/search] } }
  - { name: unused, key: [user], rate: 5/min, match: { path: [/other] } }
`;

/** 100 seconds: 10 requests each second, 40 requests at once every 10 seconds, and a response of 99 quanta each second. */
const LINES: Line[] = [
  ...Array.from({ length: 1_000 }, (_, i) => ({ atMs: i * 100, app: "steady" })),
  ...Array.from({ length: 400 }, (_, i) => ({ atMs: Math.floor(i / 40) * 10_000, app: "bursts" })),
  ...Array.from({ length: 100 }, (_, i) => ({ atMs: i * 1_000, app: "costly", bytes: 99 * 65_536 })),
  // 20 users send one search per second for ten seconds, another one 60.
  ...Array.from({ length: 200 }, (_, i) => ({ atMs: i * 50, app: "steady", user: `u${i % 20}`, path: "/search" })),
  ...Array.from({ length: 60 }, (_, i) => ({ atMs: i * 1_000, app: "steady", user: "many", path: "/search" })),
].sort((a, b) => a.atMs - b.atMs);

interface Suggestion {
  app?: string;
  limit?: string;
  max_share: number | null;
  rate: string;
  burst: number;
  requests: number;
  refused: number;
}

async function suggest(): Promise<Suggestion[]> {
  const log = file("a.log", LINES.map(lineOf).join("\n"));
  const { text, exitCode } = await runCommandLine([
    ...["simulate", log, "--config", file("now.yaml", CONFIG), "--suggest", "--json"],
  ]);
  expect(exitCode).toBe(0);
  return (JSON.parse(text) as { suggestions: Suggestion[] }).suggestions;
}

describe("--suggest", () => {
  let all: Suggestion[];
  beforeAll(async () => {
    all = await suggest();
  });
  const of = (name: string) => all.filter(({ app, limit }) => (app ?? limit) === name);
  const rates = (name: string) => of(name).map(({ rate }) => rate);

  it("finds the lowest rate for a steady load", () => {
    // 10 per second, and for ten seconds 20 to 30.
    expect(of("steady")[1]).toMatchObject({ max_share: 0, refused: 0, requests: 1_260 });
    expect(["15/s", "20/s", "30/s"]).toContain(rates("steady")[1]);
  });

  it("finds a rate whose burst pays for requests at once", () => {
    expect(of("bursts")[1]).toMatchObject({ rate: "20/s", burst: 40, refused: 0 });
  });

  it("follows the cost of requests", () => {
    // A cost of 100 tokens per second, paid by a full bucket.
    expect(of("costly")[1]).toMatchObject({ max_share: 0, rate: "100/s", refused: 0 });
  });

  it("suggests rates for limits, by their unit and key", () => {
    expect(of("per-user")[0]).toMatchObject({ max_share: null, rate: "5/min", burst: 5, requests: 260 });
    expect(of("per-user")[0]!.refused).toBeGreaterThan(100);
    expect(of("per-user")[1]).toMatchObject({ max_share: 0, refused: 0 });
    expect(["30/min", "50/min"]).toContain(rates("per-user")[1]);
    expect(of("unused")).toEqual([]);
  });

  it("shows for each rate what the limiter refuses, at most a little above the share", () => {
    for (const { max_share, refused, requests } of all) {
      if (max_share !== null) expect(refused / requests).toBeLessThanOrEqual(max_share + 0.02);
    }
  });

  it("prints a table", async () => {
    const { text } = await runCommandLine([
      ...["simulate", join(directory, "a.log"), "--config", join(directory, "now.yaml"), "--suggest"],
    ]);
    expect(text).toContain("Suggested: the lowest rates that refuse no more than this.");
    expect(text).toMatch(/^bursts +as configured +1,000\/s +2,000 +0 +0\.0 %$/m);
    expect(text).toMatch(/^ +none +20\/s +40 +0 +0\.0 %$/m);
    expect(text).toMatch(/^ +at most 0\.1 %/m);
    expect(text).toMatch(/^limit per-user/m);
  });

  it.each([
    [["-", "--config", "now.yaml", "--suggest"], "cannot be -"],
    [["a.log", "--config", "now.yaml", "--against", "b.yaml", "--suggest"], "exclude each other"],
  ])("rejects %j", async (args, complaint) => {
    expect(await runCommandLine(["simulate", ...args])).toMatchObject({
      exitCode: 2,
      complaint: expect.stringContaining(complaint),
    });
  });
});
