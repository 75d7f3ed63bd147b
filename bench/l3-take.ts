/** Measures one take from a local lease in Node and in LuaJIT, without the loop around it. */
import { spawnSync } from "node:child_process";
import { luaBundle } from "../build/lua-bundle.js";
import { fromRoot } from "../build/paths.js";
import { takeTokens } from "../src/core/lease.js";
import { below, type Result, result } from "./results.js";
import { alternate, median } from "./rounds.js";
import { CELLS, emptyLoop, expectedSum, fillCells, newCells, takeLoop } from "./takes.js";

const ROUNDS = 15;
const TURNS = 5_000;
const BUDGET = below(1000);

export async function l3TakeNode(): Promise<Result[]> {
  const cells = newCells();

  function takes(): number {
    fillCells(cells, TURNS);
    const started = process.hrtime.bigint();
    const sum = takeLoop(takeTokens, cells, TURNS);
    const ns = Number(process.hrtime.bigint() - started);
    if (sum !== expectedSum(TURNS)) throw new Error("the takes returned a wrong sum");
    return ns;
  }

  function empty(): number {
    const started = process.hrtime.bigint();
    const sum = emptyLoop(TURNS);
    const ns = Number(process.hrtime.bigint() - started);
    if (sum === 0) throw new Error("the empty loop returned 0");
    return ns;
  }

  return perTake("l3-take-node", await alternate(ROUNDS, takes, empty));
}

export async function l3TakeLuajit(): Promise<Result[]> {
  const bundle = luaBundle({ entry: "bench/takes-luajit.ts", target: "JIT" });
  const code = `local program = (function(...)\n${bundle}end)(...)\nprogram.main(arg)\n`;
  const args = ["-", fromRoot("dist/lua/jit/core.lua"), String(ROUNDS), String(TURNS)];
  const { status, stdout, stderr, error } = spawnSync("luajit", args, {
    input: code,
    encoding: "utf8",
    timeout: 60_000,
  });
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error(`luajit: ${stderr}`);
  const pairs = stdout
    .trim()
    .split("\n")
    .map((line) => line.split("\t").map(Number) as [number, number]);
  if (pairs.length !== ROUNDS) throw new Error(`luajit ran ${pairs.length} of ${ROUNDS} rounds`);
  return perTake("l3-take-luajit", pairs);
}

function perTake(name: string, pairs: [takes: number, empty: number][]): Result[] {
  const ns = median(pairs.map(([takes, empty]) => (takes - empty) / (TURNS * CELLS)));
  return [result(name, ns, "ns per take", BUDGET)];
}
