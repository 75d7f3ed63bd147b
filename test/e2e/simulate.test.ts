/** `tollgate simulate` as its own process: totals equal to the live limiter's, flat memory, every kind of log. */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fromRoot } from "../../build/paths.js";
import type { reportData } from "../../src/cli/simulate/report.js";
import { readConfig } from "../../src/config/load.js";
import { combinedLine, envoyLine, type GeneratedLog, generateRequests, jsonLine } from "../support/generated-log.js";
import { feedLiveLimiter } from "../support/live-limiter-feed.js";
import { tollgateProgram } from "../support/program.js";

const YAML = `
apps:
  default: { guaranteed: 1000, burst: 2000 }
  video-service: { guaranteed: 300, burst: 600 }
  tight: { guaranteed: 20, burst: 60 }
`;
const GENEROUS = YAML.replace("guaranteed: 20, burst: 60", "guaranteed: 2000, burst: 4000");
const APPS: GeneratedLog["apps"] = [
  ["default", 40],
  ["video-service", 40],
  ["tight", 20],
];
const MANY: GeneratedLog = { requests: 200_000, seconds: 600, apps: APPS };
const FEW: GeneratedLog = { requests: 3_000, seconds: 10, apps: APPS };
const MB = 1024;

let directory: string;
const file = (name: string, content: string | Uint8Array) => {
  const path = join(directory, name);
  writeFileSync(path, content);
  return path;
};
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "tollgate-simulate-"));
  file("now.yaml", YAML);
  file("next.yaml", GENEROUS);
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

interface Ended {
  status: number | null;
  stdout: string;
  stderr: string;
}

/** Runs the program in the directory of the files; `feed` writes its stdin. */
async function tollgate(args: string[], feed?: (write: (text: string) => Promise<void>, pid: number) => Promise<void>) {
  const program = [...tollgateProgram(), "simulate", ...args];
  const child = spawn(process.execPath, program, { cwd: fromRoot("."), stdio: ["pipe", "pipe", "pipe"] });
  const ended: Ended = { status: null, stdout: "", stderr: "" };
  child.stdout.on("data", (chunk: Buffer) => {
    ended.stdout += chunk.toString();
  });
  child.stderr.on("data", (chunk: Buffer) => {
    ended.stderr += chunk.toString();
  });
  child.stdin.on("error", () => undefined);
  const closed = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const write = async (text: string) => {
    if (!child.stdin.write(text))
      await Promise.race([new Promise((resolve) => child.stdin.once("drain", resolve)), closed]);
  };
  await feed?.(write, child.pid ?? 0);
  child.stdin.end();
  await closed;
  return { ...ended, status: child.exitCode };
}

type Data = ReturnType<typeof reportData>;
const dataOf = ({ stdout, stderr, status }: Ended): Data => {
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  return JSON.parse(stdout) as Data;
};

const config = (name: string) => join(directory, name);
const linesOf = (log: GeneratedLog, line: (one: Parameters<typeof jsonLine>[0]) => string) =>
  `${[...generateRequests(log)].map(line).join("\n")}\n`;

/** Of a process, in KiB. */
function residentKib(pid: number): number {
  return Number(/VmRSS:\s+([0-9]+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
}

describe("a long log", () => {
  it("through a pipe has the totals of the live limiter with constant memory", {
    timeout: 300_000,
  }, async () => {
    const resident: number[] = [];
    const ended = await tollgate(["-", "--config", config("now.yaml"), "--json"], async (write, pid) => {
      let lines: string[] = [];
      let count = 0;
      for (const one of generateRequests(MANY)) {
        lines.push(jsonLine(one));
        if (lines.length < MANY.requests / 100) continue;
        await write(`${lines.join("\n")}\n`);
        lines = [];
        // The pipe holds little, so the program is about as far as the writer.
        if (++count === 10 || count === 100) resident.push(residentKib(pid));
      }
    });
    const [run] = dataOf(ended).runs;
    const live = await feedLiveLimiter(readConfig(YAML, {}).config!, 1, generateRequests(MANY));
    const seen = run!.apps.map(({ app, admitted, refused, codes, tokens }) => [
      app,
      { admitted, refused, codes, tokens },
    ]);
    expect(Object.fromEntries(seen)).toEqual(live);
    expect(run!.totals).toMatchObject({ requests: MANY.requests });
    expect(live.tight!.refused).toBeGreaterThan(10_000);
    const [early, late] = resident as [number, number];
    expect(late - early, `${early} KiB after a tenth, ${late} at the end`).toBeLessThan(60 * MB);
  });
});

describe("a log", () => {
  it.each([
    ["combined", combinedLine, ["--field", "app=1", "--field", "request_bytes=rlen"]],
    ["envoy", envoyLine, ["--app-from", "field=authority"]],
    ["json", jsonLine, []],
  ] as const)("in the format %s, found out by itself", async (format, line, options) => {
    const log = file(
      "a.log",
      linesOf(FEW, (one) => line(one)),
    );
    const data = dataOf(await tollgate([log, "--config", config("now.yaml"), "--json", ...options]));
    expect(data.log).toMatchObject({ format, requests: 3_000, bad_lines: 0 });
    expect(data.runs[0]!.apps.map(({ app }) => app)).toEqual(["default", "tight", "video-service"]);
    expect(data.runs[0]!.apps[1]!.codes.quota_exhausted).toBeGreaterThan(100);
  });

  it("gzipped in two files has the same result as in one", async () => {
    const text = linesOf(FEW, jsonLine);
    const half = text.indexOf("\n", text.length / 2) + 1;
    const [one, two] = [file("1.gz", gzipSync(text.slice(0, half))), file("2.gz", gzipSync(text.slice(half)))];
    const whole = dataOf(await tollgate([file("whole.log", text), "--config", config("now.yaml"), "--json"]));
    expect(dataOf(await tollgate([one, two, "--config", config("now.yaml"), "--json"]))).toEqual(whole);
  });

  it("against two configurations shows the change of refusals", async () => {
    const log = file("b.log", linesOf(FEW, jsonLine));
    const args = [log, "--config", config("now.yaml"), "--against", config("next.yaml"), "--nodes", "3"];
    const data = dataOf(await tollgate([...args, "--json"]));
    const refused = data.runs.map(({ apps }) => apps.find(({ app }) => app === "tight")!.refused);
    expect(refused[0]).toBeGreaterThan(100);
    expect(refused[1]).toBe(0);
    const { status, stdout } = await tollgate(args);
    expect(status).toBe(0);
    expect(stdout).toContain(`A is ${config("now.yaml")}, B is ${config("next.yaml")}`);
    expect(stdout).toMatch(
      new RegExp(`tight +[0-9,]+ +[0-9,]+ +${refused[0]!.toLocaleString("en-US")} .* -${refused[0]}`),
    );
  });

  it("as text shows what, why, when, and the invalid lines", async () => {
    const lines = linesOf(FEW, (one) => combinedLine(one)).split("\n");
    lines.splice(7, 0, "\u001b[31mnot a line", "203.0.113.9 - - [nonsense] x");
    const { status, stdout, stderr } = await tollgate([
      ...[
        file("c.log", lines.join("\n")),
        "--config",
        config("now.yaml"),
        "--app-from",
        "path=/tight/:tight",
        "--progress",
      ],
    ]);
    expect(status).toBe(0);
    expect(stderr).not.toContain("tollgate:");
    expect(stdout).toContain("3,000 requests");
    expect(stdout).toContain("2 lines could not be read");
    expect(stdout).toContain("line 8: no time in brackets: \\u001b[31mnot a line");
    expect(stdout).toMatch(/tight +[0-9,]+ +[0-9,]+ +[0-9,]+ +[0-9.]+ % +[0-9,]+ {2}quota_exhausted [0-9,]+/);
    expect(stdout).toMatch(/first 2026-07-28 12:0.*, last 2026-07-28 12:0/);
    expect(stdout).toMatch(/worst second 2026-07-28 12:.*: [0-9,]+ of [0-9,]+; worst minute/);
  });
});

describe("the exit code", () => {
  it.each([
    ["2 for a usage error", () => ["--config", config("now.yaml")], 2, "LOG is missing"],
    ["1 for a log that cannot be read", () => [file("e.log", "a\nb\n"), "--config", config("now.yaml")], 1, "no line"],
  ])("is %s", async (_, args, code, complaint) => {
    const { status, stderr } = await tollgate(args());
    expect({ status, stderr }).toEqual({ status: code, stderr: expect.stringContaining(complaint) });
  });
});
