/** A replay decides like the live limiter, for every log format and for imperfect logs. */
import { describe, expect, it } from "vitest";
import { readConfig } from "../../../src/config/load.js";
import { type Replay, type ReplayOptions, replay } from "../../../src/simulate/replay.js";
import {
  combinedLine,
  envoyLine,
  type GeneratedRequest,
  generateRequests,
  jsonLine,
  LOG_START_MS,
} from "../../support/generated-log.js";
import { feedLiveLimiter, type LiveCounts } from "../../support/live-limiter-feed.js";
import { createRandom } from "../../support/random.js";

const APPS: [string, number][] = [
  ["default", 30],
  ["video", 40],
  ["tight", 20],
  ["trial", 10],
];

const config = (more = "") => {
  const loaded = readConfig(
    `
apps:
  default: { guaranteed: 1000, burst: 2000 }
  video: { guaranteed: 300, burst: 600, borrow: true }
  tight: { guaranteed: 20, burst: 60 }
  trial: { guaranteed: 50, burst: 100, dry_run: true }
${more}`,
    {},
  );
  expect(loaded.problems).toEqual([]);
  return loaded.config!;
};

async function* inPieces(lines: string[]): AsyncGenerator<string[]> {
  for (let i = 0; i < lines.length; i += 1000) yield lines.slice(i, i + 1000);
}

function run(lines: string[], more: Partial<ReplayOptions> = {}): Promise<Replay> {
  return replay({
    ...{ lines: inPieces(lines), configs: [config()], nodes: 1, fields: {}, toleranceMs: 10_000 },
    ...more,
  });
}

function countsOf({ outcomes }: Replay, world = 0): Record<string, LiveCounts> {
  return Object.fromEntries(
    outcomes[world]!.apps.map(({ app, admitted, refused, codes, tokens }) => [
      app,
      { admitted, refused, codes: Object.fromEntries(codes), tokens },
    ]),
  );
}

const some = (requests: number, seconds: number, seed = 1) => [
  ...generateRequests({ requests, seconds, apps: APPS, seed }),
];

const byAuthority = [{ from: "field" as const, name: "authority" }];

describe("the totals", () => {
  it.each([1, 3])("equal those of the live limiter fed with the same requests, on %i nodes", async (nodes) => {
    const requests = some(12_000, 40);
    const live = await feedLiveLimiter(config(), nodes, requests);
    const done = await run(requests.map(jsonLine), { nodes });
    expect(done).toMatchObject({ format: "json", requests: 12_000, badLines: 0, late: 0 });
    expect(countsOf(done)).toEqual(live);
    // All outcomes occur, so that the comparison is meaningful.
    expect(live.tight!.codes.quota_exhausted).toBeGreaterThan(100);
    expect(live.trial).toMatchObject({ refused: 0, codes: { quota_exhausted: expect.any(Number) } });
    expect(live.default!.refused).toBe(0);
  });

  it("are the same with Envoy's format, with the app from a field or the path", async () => {
    const requests = some(5_000, 20);
    const live = await feedLiveLimiter(config(), 1, requests);
    const lines = requests.map(envoyLine);
    const byField = await run(lines, { rules: byAuthority });
    expect(byField.format).toBe("envoy");
    expect(countsOf(byField)).toEqual(live);
    const rules = APPS.map(([app]) => ({ from: "path" as const, prefix: `/${app}/`, app }));
    expect(countsOf(await run(lines, { rules }))).toEqual(live);
  });

  it("are the same with the combined format, whose requests are spread over each second", async () => {
    const requests = some(5_000, 20);
    const secondOf = ({ at }: GeneratedRequest) => Math.floor(at / 1000) * 1000;
    const spread = requests.map((one) => {
      const crowd = requests.filter((other) => secondOf(other) === secondOf(one));
      const at = secondOf(one) + crowd.indexOf(one) * (1000 / crowd.length);
      return { ...one, at, requestBytes: 0, durationMs: 0 };
    });
    const live = await feedLiveLimiter(config(), 1, spread);
    const lines = requests.map((one) => combinedLine(one));
    const byField = await run(lines, { rules: [{ from: "field", name: "1" }] });
    expect(byField.format).toBe("combined");
    expect(countsOf(byField)).toEqual(live);
    expect(countsOf(await run(lines, { rules: [{ from: "user" }] }))).toEqual(live);
  });

  it("include emergencies of a cluster that is too small for its apps", async () => {
    const small = config("cluster: { capacity: 1000, rate: 100, emergency_cooldown_ms: 1000 }");
    const requests = some(8_000, 60);
    const live = await feedLiveLimiter(small, 2, requests);
    const done = await run(requests.map(jsonLine), { configs: [small], nodes: 2 });
    expect(countsOf(done)).toEqual(live);
    const codes = new Set(Object.values(live).flatMap((own) => Object.keys(own.codes)));
    expect(codes).toContain("emergency_blocked");
  });

  it("are the same whether or not a long pause is skipped", async () => {
    const first = some(3_000, 10);
    const later = some(3_000, 10, 2).map((one) => ({ ...one, at: one.at + 900_000 }));
    const requests = [...first, ...later];
    expect(countsOf(await run(requests.map(jsonLine)))).toEqual(await feedLiveLimiter(config(), 1, requests));
  });

  it("of two configurations equal those of separate replays", async () => {
    const other = config("fail_open_tokens: 5\nlease: { reserve: 20 }");
    const lines = some(4_000, 15).map(jsonLine);
    const both = await run(lines, { configs: [config(), other] });
    expect(countsOf(both, 0)).toEqual(countsOf(await run(lines)));
    expect(countsOf(both, 1)).toEqual(countsOf(await run(lines, { configs: [other] })));
  });
});

describe("a log that is out of order", () => {
  it("because lines are written at the end: every request counts at its start", async () => {
    // No two requests have the same time, which would keep the order of the log.
    const requests = some(5_000, 20)
      .filter(({ at }, i, all) => all[i - 1]?.at !== at)
      .map((one, i) => ({ ...one, durationMs: (i * 7919) % 4_000 }));
    const byEnd = [...requests].sort((a, b) => a.at + a.durationMs - b.at - b.durationMs);
    const done = await run(byEnd.map(jsonLine));
    expect(done.late).toBe(0);
    expect(countsOf(done)).toEqual(await feedLiveLimiter(config(), 1, requests));
  });

  it("by more than the tolerance: such lines count later, and their number is reported", async () => {
    const lines = some(2_000, 20).map(jsonLine);
    lines.push(...lines.splice(0, 3));
    const done = await run(lines, { toleranceMs: 1_000 });
    expect(done).toMatchObject({ requests: 2_000, late: 3 });
    expect(await run(lines, { toleranceMs: 60_000 })).toMatchObject({ requests: 2_000, late: 0 });
  });
});

describe("invalid lines", () => {
  it("are counted, and the first ones are shown with number and reason", async () => {
    const random = createRandom(7);
    const good = some(3_000, 10).map(jsonLine);
    const garbage = () => String.fromCharCode(...Array.from({ length: 40 }, () => 32 + Math.floor(random() * 90)));
    const lines = good.flatMap((line, i) => (i % 100 === 50 ? [garbage(), line] : [line]));
    const done = await run([...lines, ""]);
    expect(done).toMatchObject({ lines: 3_031, requests: 3_000, badLines: 30 });
    expect(done.examples).toHaveLength(5);
    expect(done.examples[0]).toMatchObject({ line: 51, reason: "not a JSON object" });
    expect(countsOf(done)).toEqual(countsOf(await run(good)));
  });

  it("alone lead to no decisions and no failure", async () => {
    const done = await run(["what", "is", "this?"]);
    expect(done).toMatchObject({ requests: 0, badLines: 3, outcomes: [], format: undefined });
    expect(await run([])).toMatchObject({ lines: 0, requests: 0, badLines: 0 });
  });

  it("with an invalid app are refused as in the gateway", async () => {
    const [one] = some(1, 1);
    const lines = ["a b", "x".repeat(200), "unheard-of"].map((app) => jsonLine({ ...one!, app }));
    const done = await run(lines);
    expect(countsOf(done)).toMatchObject({
      "": { admitted: 0, refused: 2, codes: { invalid_identity: 2 } },
      default: { admitted: 1 },
    });
    const strict = config("unknown_apps: reject");
    expect(countsOf(await run(lines, { configs: [strict] }))).toMatchObject({
      "": { refused: 3, codes: { invalid_identity: 2, unknown_app: 1 } },
    });
  });
});

describe("the timeline of an app", () => {
  it("has the first and last refusal, the worst second and minute, and steps", async () => {
    const at = (seconds: number, app: string, count: number) =>
      Array.from({ length: count }, () => ({
        ...{ at: LOG_START_MS + seconds * 1000, app, method: "GET", path: "/" },
        ...{ requestBytes: 0, responseBytes: 0, durationMs: 0 },
      }));
    const requests = [...at(0, "tight", 50), ...at(30, "tight", 100), ...at(95, "tight", 300), ...at(150, "tight", 70)];
    const done = await run(requests.map(jsonLine));
    const tight = done.outcomes[0]!.apps[0]!;
    expect(tight).toMatchObject({
      ...{ app: "tight", requests: 520 },
      firstRefused: LOG_START_MS + 30_000,
      second: { worst: { at: LOG_START_MS + 95_000, requests: 300, refused: 240 } },
      minute: { worst: { at: LOG_START_MS + 60_000, requests: 300, refused: 240 } },
    });
    expect(tight.lastRefused).toBe(LOG_START_MS + 150_000);
    expect(done.outcomes[0]!.timeline).toEqual({ startMs: LOG_START_MS, stepMs: 4000 });
    expect([...tight.series.requests.subarray(0, 38)].filter((count) => count > 0)).toEqual([50, 100, 300, 70]);
    expect(tight.series.refused.reduce((sum, count) => sum + count, 0)).toBe(tight.refused);
  });
});

describe("limits on any key", () => {
  it("apply to the address, user, method and path of the log, and are counted by limit", async () => {
    const limits = `
limits:
  - { name: logins, key: [ip], rate: 2/min, match: { path: [/login], method: [POST] } }
  - { name: per-user, key: [user], rate: 3/min }
`;
    const line = (address: string, user: string, second: number, request: string) =>
      `${address} - ${user} [28/Jul/2026:12:00:0${second} +0000] "${request} HTTP/1.1" 200 10 "-" "x"`;
    const lines = [
      line("10.0.0.1", "ann", 0, "POST /login"),
      line("10.0.0.1", "ann", 1, "POST /%6Cogin?next=/"),
      line("10.0.0.1", "ann", 2, "POST /login"),
      line("10.0.0.2", "bob", 3, "POST /login"),
      line("10.0.0.1", "ann", 4, "GET /a"),
      line("10.0.0.1", "ann", 5, "GET /b"),
    ];
    const options = { lines: inPieces(lines), configs: [config(limits)], nodes: 1, fields: {}, toleranceMs: 0 };
    const { outcomes } = await replay(options);
    expect(outcomes[0]!.apps[0]).toMatchObject({ requests: 6, admitted: 4, refused: 2 });
    // The third login used nothing of `per-user`.
    expect(outcomes[0]!.limits).toEqual([
      { limit: "logins", requests: 4, refused: 1 },
      { limit: "per-user", requests: 6, refused: 1 },
    ]);
  });
});
