/** The three runtimes of the conformance program: Node, a luajit process, and a script in a real Redis. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { luaBundle } from "../../build/lua-bundle.js";
import { startRedis } from "../support/redis-server.js";
import { runProgram } from "./core-program.js";

export interface Runtime {
  name: string;
  /** Returns one answer per line. */
  run(lines: string[]): Promise<string[]>;
}

export interface Runtimes {
  node: Runtime;
  luajit: Runtime;
  redis: Runtime;
  stop(): Promise<void>;
}

const entry = "test/contract/core-program.ts";

/** Texts can contain any bytes, so each is preceded by its length in bytes. */
const FRAMES = `
local lines = {}
local size = io.read("*l")
while size do
    lines[#lines + 1] = size == "0" and "" or io.read(tonumber(size))
    size = io.read("*l")
end
for _, result in ipairs(program.runProgram(lines)) do
    io.write(#result, "\\n", result)
end`;

/** Runs a Lua file in its own process. A missing luajit fails the test; it is never skipped. */
export function runLuajit(args: string[], input: Buffer = Buffer.alloc(0)): Buffer {
  const { status, error, stdout, stderr } = spawnSync("luajit", args, { input, maxBuffer: 2 ** 28 });
  if (error !== undefined) throw new Error(`luajit cannot be started: ${error.message}`);
  if (status !== 0) throw new Error(`luajit exited with code ${status}: ${stderr.toString()}`);
  return stdout;
}

/** As in the function library of Tollgate, the first call initializes the bundle, and there is no `require`. */
function redisProgram(bundle: string): string {
  return `#!lua name=core_program
local program
redis.register_function{function_name = "run_program", flags = {"no-writes"}, callback = function(keys, args)
    program = program or (function(...)
        local require
        ${bundle}
    end)()
    return program.runProgram(args)
end}
`;
}

export async function startRuntimes(): Promise<Runtimes> {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-core-"));
  const file = join(folder, "core-program.lua");
  writeFileSync(file, `local program = (function(...)\n${luaBundle({ entry, target: "JIT" })}end)(...)\n${FRAMES}`);
  const server = await startRedis();
  await server.command("FUNCTION", "LOAD", redisProgram(luaBundle({ entry, target: "5.1" })));
  return {
    node: { name: "node", run: async (lines) => runProgram(lines) },
    luajit: { name: "luajit", run: async (lines) => unframe(runLuajit([file], frame(lines))) },
    redis: {
      name: "redis",
      run: async (lines) => (await server.command("FCALL", "run_program", 0, ...lines)) as string[],
    },
    async stop() {
      rmSync(folder, { recursive: true, force: true });
      await server.stop();
    },
  };
}

function frame(lines: string[]): Buffer {
  return Buffer.concat(lines.map((line) => Buffer.from(`${Buffer.byteLength(line)}\n${line}`)));
}

function unframe(output: Buffer): string[] {
  const texts: string[] = [];
  for (let at = 0; at < output.length; ) {
    const newline = output.indexOf("\n", at);
    const end = newline + 1 + Number(output.toString("latin1", at, newline));
    texts.push(output.toString("utf8", newline + 1, end));
    at = end;
  }
  return texts;
}
