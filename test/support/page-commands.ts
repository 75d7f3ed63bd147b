/**
 * Runs the commands that a page of the documentation shows, and compares what they print with what the page says. A page has its own
 * network and processes, so it may use the default ports.
 *
 * - A block `console` has commands after `$ ` and what they print. `…` stands for anything, a line `…` for any number of lines.
 * - A command that ends with `&` runs on; the next one waits until everything that is shown was printed.
 * - A block with a file name, as in "yaml [tollgate.yaml]", is written to that file.
 */
import { spawn } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fromRoot } from "../../build/paths.js";
import { findEnvoy, moduleFolder } from "./find-envoy.js";
import { waitFor } from "./wait-for.js";

export interface PageCommand {
  line: number;
  command: string;
  /** Lines, as shown. */
  expected: string[];
}

export interface PageFile {
  line: number;
  name: string;
  text: string;
}

export type PageStep = PageCommand | PageFile;

const FENCE = /^( *)```(\w*)(?: \[(.*)\])? *$/;

/** The commands and files of a page in their order. Throws if a block does not end. */
export function stepsOf(markdown: string): PageStep[] {
  const lines = markdown.split("\n");
  const steps: PageStep[] = [];
  for (let i = 0; i < lines.length; i++) {
    const [start, indent = "", kind, name] = FENCE.exec(lines[i]!) ?? [];
    if (start === undefined) continue;
    const end = lines.findIndex((line, at) => at > i && line.trim() === "```");
    if (end < 0) throw new Error(`line ${i + 1}: the block does not end`);
    const body = lines.slice(i + 1, end).map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line));
    if (kind === "console") steps.push(...commandsOf(body, i + 2));
    else if (name !== undefined) steps.push({ line: i + 1, name, text: `${body.join("\n")}\n` });
    i = end;
  }
  return steps;
}

function commandsOf(body: string[], firstLine: number): PageCommand[] {
  const commands: PageCommand[] = [];
  let continues = false;
  body.forEach((text, i) => {
    const last = commands.at(-1);
    if (continues && last !== undefined) last.command += `\n${text}`;
    else if (text.startsWith("$ ")) commands.push({ line: firstLine + i, command: text.slice(2), expected: [] });
    else if (last === undefined) throw new Error(`line ${firstLine + i}: output without a command`);
    else last.expected.push(text);
    continues = (continues || text.startsWith("$ ")) && text.endsWith("\\");
  });
  return commands;
}

/** Whether the printed text is what the page shows. In a background process, further lines may follow. */
export function isAsShown(printed: string, expected: string[], background: boolean): boolean {
  const shown = [...expected];
  while (shown.at(-1) === "") shown.pop();
  const escaped = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replaceAll("…", ".*");
  const pattern = shown
    .map((line) => (line.trim() === "…" ? "(?:.*\n)*" : `${escaped(line.trimEnd())}[ \t]*\n`))
    .join("");
  const text = printed.endsWith("\n") || printed === "" ? printed : `${printed}\n`;
  return new RegExp(`^${background ? "(?:.*\n)*" : ""}${pattern}${background ? "" : "$"}`).test(text);
}

/** What the commands of a page find besides the programs of the machine. */
function prepare(folder: string): void {
  const bin = join(folder, ".bin");
  mkdirSync(bin);
  const program = (name: string, text: string) => {
    writeFileSync(join(bin, name), `#!/bin/sh\n${text}\n`);
    chmodSync(join(bin, name), 0o755);
  };
  const tollgate = `exec "${process.execPath}" "${fromRoot("dist/cli/main.js")}"`;
  program("tollgate", `${tollgate} "$@"`);
  program(
    "npx",
    `if [ "$1" = tollgate ]; then shift; ${tollgate} "$@"; fi\nname=$1; shift; exec "${fromRoot("node_modules/.bin")}/$name" "$@"`,
  );
  // The build is what the test was started with.
  program(
    "make",
    `case "$1" in run) ${tollgate} serve ;; build) exit 0 ;; *) echo "make $1: not in tests" >&2; exit 1 ;; esac`,
  );
  const envoy = findEnvoy();
  if (envoy !== undefined) program("envoy", `exec "${envoy}" "$@"`);
  for (const name of readdirSync(fromRoot(""))) {
    if (!name.startsWith(".") || name === ".cache") symlinkSync(fromRoot(name), join(folder, name));
  }
}

export interface RunOptions {
  env?: Record<string, string>;
  withinMs?: number;
}

/** Throws with the place in the page, the command and its output if something differs from the page. */
export async function runPage(page: string, { env = {}, withinMs = 120_000 }: RunOptions = {}): Promise<number> {
  const steps = stepsOf(readFileSync(fromRoot(page), "utf8"));
  const folder = mkdtempSync(join(tmpdir(), "tollgate-page-"));
  prepare(folder);
  const own = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("TOLLGATE_")));
  const isolated = ["--net", "--pid", "--fork", "--kill-child", "--mount-proc"];
  const asRoot = process.getuid?.() === 0 ? [] : ["--map-root-user"];
  const shell = spawn("unshare", [...asRoot, ...isolated, "bash"], {
    cwd: folder,
    env: {
      ...own,
      ENVOY_DYNAMIC_MODULES_SEARCH_PATH: moduleFolder(),
      ...env,
      PATH: `${join(folder, ".bin")}:/usr/sbin:${process.env.PATH}`,
    },
    stdio: ["pipe", "pipe", "pipe"],
  });
  let complaints = "";
  shell.stderr.on("data", (data) => (complaints += data));
  const ended = new Promise((resolve) => shell.once("exit", resolve));
  const results = join(folder, ".results");
  mkdirSync(results);
  shell.stdin.write("set -o pipefail; ip link set lo up\n");
  try {
    let number = 0;
    for (const step of steps) {
      if ("name" in step) {
        mkdirSync(dirname(join(folder, step.name)), { recursive: true });
        writeFileSync(join(folder, step.name), step.text);
      } else await run(step, join(results, String(++number)));
    }
    return number;
  } finally {
    shell.kill("SIGKILL");
    await ended;
    rmSync(folder, { recursive: true, force: true });
  }

  async function run({ line, command, expected }: PageCommand, at: string): Promise<void> {
    const background = /(^|[^&])&$/.test(command.trimEnd());
    shell.stdin.write(
      `{ ${command}\n} >"${at}.out" 2>&1 </dev/null\necho $? >"${at}.code.part"; mv "${at}.code.part" "${at}.code"\n`,
    );
    const printed = () => (existsSync(`${at}.out`) ? readFileSync(`${at}.out`, "utf8").replaceAll("\r", "") : "");
    const isDone = () => existsSync(`${at}.code`) && (!background || isAsShown(printed(), expected, true));
    await waitFor(`${page}:${line}: ${command}`, isDone, { withinMs }).catch((error: unknown) => {
      throw new Error(`${String(error)}\nprinted:\n${printed()}\n${complaints}`);
    });
    if (!background && !isAsShown(printed(), expected, false)) {
      throw new Error(
        `${page}:${line}: ${command}\nprinted:\n${printed()}\ninstead of:\n${expected.join("\n")}\n${complaints}`,
      );
    }
  }
}
