/** The options, errors, progress and report of the command, run in this process. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { runCommandLine } from "../../../src/cli/command-line.js";
import { createProgress } from "../../../src/cli/simulate/progress.js";
import { combinedLine, type GeneratedLog, generateRequests, jsonLine } from "../../support/generated-log.js";

const LOG: GeneratedLog = {
  ...{ requests: 600, seconds: 5 },
  apps: [
    ["video", 1],
    ["tight", 1],
  ],
};
const requests = [...generateRequests(LOG)];

let directory: string;
const file = (name: string, content: string | Uint8Array) => {
  const path = join(directory, name);
  writeFileSync(path, content);
  return path;
};
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "tollgate-simulate-"));
  file("now.yaml", "apps: { video: { guaranteed: 5000 }, tight: { guaranteed: 5, burst: 10 } }");
  file("dry.yaml", "apps: { video: { guaranteed: 5000 }, tight: { guaranteed: 5, burst: 10, dry_run: true } }");
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const config = (name = "now.yaml") => join(directory, name);
const log = () => file("a.log", `${requests.map(jsonLine).join("\n")}\n`);
const simulate = (...args: string[]) => runCommandLine(["simulate", ...args]);

describe("an invalid call", () => {
  it.each([
    ["no log", () => ["--config", config()], 2, "LOG is missing"],
    ["stdin twice", () => ["-", "-", "--config", config()], 2, "once"],
    ["no configuration", () => [log()], 2, "--config"],
    ["a format that there is not", () => [log(), "--config", config(), "--format", "iis"], 2, "combined, envoy, json"],
    ["a rule that is none", () => [log(), "--config", config(), "--app-from", "magic"], 2, "path=PREFIX:APP"],
    ["a rule of another kind", () => [log(), "--config", config(), "--app-from", "cookie=a"], 2, "user, field=NAME"],
    ["a path that is none", () => [log(), "--config", config(), "--app-from", "path=video:v"], 2, "begins with /"],
    ["a path without an app", () => [log(), "--config", config(), "--app-from", "path=/video/"], 2, "has no valid app"],
    ["an app that is none", () => [log(), "--config", config(), "--app-from", "app=a b"], 2, "has no valid app"],
    ["a field that is none", () => [log(), "--config", config(), "--field", "colour=1"], 2, "response_bytes"],
    ["a unit that is none", () => [log(), "--config", config(), "--field", "duration=a:weeks"], 2, "ns, us, ms, s"],
    ["no nodes", () => [log(), "--config", config(), "--nodes", "0"], 2, "--nodes"],
    ["a tolerance without a unit", () => [log(), "--config", config(), "--tolerance", "5"], 2, "--tolerance"],
    ["an unknown option", () => [log(), "--config", config(), "--colour"], 2, "--colour"],
    ["a log that is not there", () => [config("no.log"), "--config", config()], 1, "no.log cannot be read"],
    ["a directory", () => [directory, "--config", config()], 1, "cannot be read"],
    ["a configuration that is not there", () => [log(), "--config", config("no.yaml")], 1, "no.yaml"],
    [
      "a wrong one to compare",
      () => [log(), "--config", config(), "--against", file("bad.yaml", "aps: {}")],
      1,
      "apps",
    ],
    ["garbage", () => [file("b.log", "a\nb\n"), "--config", config()], 1, "no line of the log could be read"],
    [
      "a damaged archive",
      () => [file("c.gz", gzipSync("x".repeat(999)).subarray(0, 15)), "--config", config()],
      1,
      "c.gz cannot be read",
    ],
  ])("%s", async (_, args, exitCode, complaint) => {
    expect(await simulate(...args())).toMatchObject({ exitCode, complaint: expect.stringContaining(complaint) });
  });
});

describe("the report", () => {
  it("of an empty log is not a failure", async () => {
    expect(await simulate(file("empty.log", ""), "--config", config())).toMatchObject({
      exitCode: 0,
      text: "The log is empty.\n",
    });
    const { text } = await simulate(file("empty.log", ""), "--config", config(), "--json");
    expect(JSON.parse(text)).toMatchObject({ log: { requests: 0, format: null, first: null }, runs: [] });
  });

  it("lists per app what was admitted and refused and why, and the totals", async () => {
    const { text, exitCode } = await simulate(log(), "--config", config());
    expect(exitCode).toBe(0);
    expect(text).toMatch(
      /^600 requests in 7s, from 2026-07-28 12:00:00 to 2026-07-28 12:00:07 UTC\n1 node, log format json\n/,
    );
    expect(text).toMatch(/video +[0-9]+ +[0-9]+ +0 +0\.0 % +[0-9,]+\n/);
    expect(text).toMatch(/tight .* quota_exhausted [0-9]+\n/);
    expect(text).toMatch(/total +600 /);
    expect(text).toMatch(/\ntight {2}[▁▂▃▄▅▆▇█·]+\n {2}first 2026-07-28 12:00:0/);
  });

  it("of a dry run shows what would be refused", async () => {
    const { text } = await simulate(log(), "--config", config("dry.yaml"));
    expect(text).toContain("would refuse");
    expect(text).toMatch(/tight +[0-9]+ +[0-9]+ +0 +0\.0 % +[1-9][0-9]* /);
    const { text: json } = await simulate(log(), "--config", config("dry.yaml"), "--json");
    expect(JSON.parse(json).runs[0].totals).toMatchObject({ refused: 0, dry_run_refused: expect.any(Number) });
  });

  it("without refusals says so", async () => {
    const { text } = await simulate(log(), "--config", config(), "--app-from", "app=video");
    expect(text).toContain("No refusals.");
  });

  it("escapes control characters of the log", async () => {
    const evil = file("evil.log", `${combinedLine(requests[0]!)}\n\u001b]0;owned\u0007\u202e\n`);
    const { text } = await simulate(evil, "--config", config());
    expect(text).toContain("\\u001b]0;owned\\u0007\\u202e");
    const { text: json } = await simulate(evil, "--config", config(), "--json");
    expect([...json.trimEnd()].filter((letter) => letter < " " || letter === "\u202e")).toEqual([]);
  });
});

describe("lines", () => {
  it("may end with a carriage return; the last one needs no newline; a byte order mark is ignored", async () => {
    const text = `\ufeff${requests.map((one) => combinedLine(one, false)).join("\r\n")}`;
    const { text: json } = await simulate(file("crlf.log", text), "--config", config(), "--json");
    expect(JSON.parse(json).log).toMatchObject({ lines: 600, requests: 600, bad_lines: 0 });
  });

  it("that never end are rejected with bounded memory", async () => {
    const good = requests.map(jsonLine).join("\n");
    const endless = file("endless.log", `${good}\n${"x".repeat(3_000_000)}\n${good}\n`);
    const { text } = await simulate(endless, "--config", config(), "--json");
    const { log: read } = JSON.parse(text);
    expect(read).toMatchObject({ requests: 1_200, bad_lines: 1, lines: 1_201 });
    expect(read.bad_examples[0].text.length).toBeLessThanOrEqual(120);
  });
});

describe("progress", () => {
  const run = (isTTY: boolean, wanted: boolean) => {
    const written: string[] = [];
    vi.useFakeTimers({ toFake: ["performance"] });
    const stderr = { isTTY, write: (text: string) => written.push(text) };
    const progress = createProgress([file("p.log", "x".repeat(1000))], wanted, stderr);
    for (let i = 1; i <= 4; i++) {
      vi.advanceTimersByTime(500);
      progress.bytes(250);
      progress.lines(i * 1000);
    }
    progress.end();
    vi.useRealTimers();
    return written;
  };

  it("on a terminal is one line, overwritten and removed at the end", () => {
    const written = run(true, false);
    expect(written).toHaveLength(5);
    expect(written[0]).toBe("\r\u001b[K25.0 % · 1,000 lines · 2,000/s");
    expect(written.at(-1)).toBe("\r\u001b[K");
  });

  it("elsewhere is off, or one line per second with --progress", () => {
    expect(run(false, false)).toEqual([]);
    expect(run(false, true)).toEqual(["50.0 % · 2,000 lines · 2,000/s\n", "100.0 % · 4,000 lines · 2,000/s\n"]);
  });
});
