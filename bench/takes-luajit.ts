/** Runs in LuaJIT: prints nanoseconds of the loop of takes and of the empty loop, per round. */
import { emptyLoop, expectedSum, fillCells, newCells, type Take, takeLoop } from "./takes.js";

declare function dofile(this: void, path: string): { takeTokens: Take };
declare function tonumber(this: void, text: string): number;
declare function print(this: void, first: number, second: number): void;
declare function error(this: void, message: string): void;
declare const os: { clock(this: void): number };

/** `args`: path of the core, number of rounds, turns per loop. The first round warms up. */
export function main(args: string[]): void {
  const core = dofile(args[0]!);
  const rounds = tonumber(args[1]!);
  const turns = tonumber(args[2]!);
  const cells = newCells();
  for (let round = 0; round <= rounds; round++) {
    fillCells(cells, turns);
    const started = os.clock();
    const sum = takeLoop(core.takeTokens, cells, turns);
    const between = os.clock();
    const empty = emptyLoop(turns);
    const ended = os.clock();
    if (sum !== expectedSum(turns) || empty === 0) error("the takes went wrong");
    if (round > 0) print((between - started) * 1000000000, (ended - between) * 1000000000);
  }
}
