/** Help, version, suggestions, completion in real shells, and progress of slow commands. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { runCommandLine } from "../../../src/cli/command-line.js";
import { commandGroups } from "../../../src/cli/command-list.js";
import { showWaiting } from "../../../src/cli/printing.js";

const tollgate = (line: string) => runCommandLine(line.split(" "));

describe("help and version", () => {
  it("help COMMAND is the help of the command", async () => {
    expect(await tollgate("help why")).toEqual(await tollgate("why --help"));
    expect((await tollgate("help")).text).toBe((await tollgate("--help")).text);
  });

  it("help of an unknown command suggests one", async () => {
    expect(await tollgate("help stauts")).toMatchObject({
      exitCode: 2,
      complaint: expect.stringContaining("did you mean status?"),
    });
  });

  it("-v is the version", async () => {
    const { text } = await tollgate("-v");
    expect(text).toMatch(/^\d+\.\d+\.\d+/);
    expect(text).toBe((await tollgate("--version")).text);
  });
});

it.each([
  ["stats", 'unknown command "stats"; did you mean status?'],
  ["status --wacth", 'unknown option "--wacth"; did you mean --watch?'],
  ["price --methd GET", 'unknown option "--methd"; did you mean --method?'],
  ["price --qqqqqqqq", 'unknown option "--qqqqqqqq"'],
  ["price -z", 'unknown option "-z"'],
])("%s: %s", async (line, expected) => {
  const { exitCode, complaint } = await tollgate(line);
  expect(exitCode).toBe(2);
  expect(complaint?.split("\n")[0]).toBe(expected);
});

it("names the ports as they are: 9145 control, 9146 status of nginx, 9147 for Envoy", async () => {
  const { text } = await tollgate("render --help");
  expect(text).toMatch(/--service 10\.0\.0\.5:9145\n.*--envoy-service 10\.0\.0\.5:9147/);
  expect(text.match(/\S*:9146/g)).toEqual(["127.0.0.1:9146"]);
});

it("counts one thing in the singular", async () => {
  expect((await tollgate("price --method GET --bytes 1 --profile iops")).text).not.toMatch(/\b1 (tokens|bytes)\b/);
});

describe.each(["bash", "zsh"] as const)("completion in %s", (shell) => {
  let dir: string;
  beforeAll(async () => {
    dir = mkdtempSync(join(tmpdir(), "tollgate-completion-"));
    writeFileSync(join(dir, "script"), (await tollgate(`completion ${shell}`)).text);
  });
  afterAll(() => rmSync(dir, { recursive: true, force: true }));

  /** What the shell offers for the last word. */
  function offered(...words: string[]): string[] {
    const call = `COMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length - 1}; _tollgate; printf '%s\\n' "\${COMPREPLY[@]}"`;
    // bashcompinit of zsh runs the function with the same options.
    const program = shell === "bash" ? call : `emulate -L ksh; setopt kshglob noshglob braceexpand; ${call}`;
    const output = execFileSync(shell, ["-c", `source ${join(dir, "script")}; f() { ${program}; }; f`], {
      cwd: dir,
      encoding: "utf8",
      env: { ...process.env, HOME: dir, ZDOTDIR: dir },
    });
    const replies = output.split("\n").filter(Boolean);
    // zsh itself drops those that do not begin with the word.
    return shell === "bash" ? replies : replies.filter((reply) => reply.startsWith(words.at(-1)!));
  }

  it("completes commands", () => {
    const names = commandGroups.flatMap(({ commands }) => commands.map(({ name }) => name));
    expect(offered("tollgate", "")).toEqual(expect.arrayContaining(names));
    expect(offered("tollgate", "sta")).toEqual(["status"]);
    expect(offered("tollgate", "help", "rec")).toEqual(["reconcile"]);
  });

  it("completes the options of a command", () => {
    expect(offered("tollgate", "simulate", "--no")).toEqual(["--nodes"]);
    expect(offered("tollgate", "price", "--")).toEqual(["--bytes", "--help", "--json", "--method", "--profile"]);
  });

  it("completes file names elsewhere", () => {
    expect(offered("tollgate", "check-config", "scr")).toEqual(["script"]);
  });
});

describe("a command that takes longer than a second", () => {
  afterEach(() => vi.useRealTimers());

  function terminal(isTTY: boolean) {
    const written: string[] = [];
    return { written, isTTY, write: (text: string) => written.push(text) };
  }

  it("shows the time on a terminal, and removes the line", () => {
    vi.useFakeTimers();
    const stderr = terminal(true);
    const end = showWaiting(["reconcile"], stderr);
    vi.advanceTimersByTime(2_500);
    end();
    vi.advanceTimersByTime(5_000);
    expect(stderr.written).toEqual([
      "\r\x1b[Ktollgate reconcile: 1 s …",
      "\r\x1b[Ktollgate reconcile: 2 s …",
      "\r\x1b[K",
    ]);
  });

  it.each([
    ["a quick command", ["status"], true, 500],
    ["a pipe", ["status"], false, 5_000],
    ["serve", ["serve"], true, 5_000],
    ["--watch", ["status", "--watch"], true, 5_000],
  ])("shows nothing for %s", (_, args, isTTY, ms) => {
    vi.useFakeTimers();
    const stderr = terminal(isTTY);
    const end = showWaiting(args, stderr);
    vi.advanceTimersByTime(ms);
    end();
    expect(stderr.written).toEqual([]);
  });
});
