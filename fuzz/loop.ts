/** Runs a target with mutated inputs and measures each of them. */
import { createMutator } from "./mutation.js";
import type { Budget, FuzzTarget, RunningTarget } from "./target.js";

export interface Failure {
  input: Buffer;
  reason: string;
}

export interface FuzzOptions {
  seed: number;
  /** Whether to go on, asked before each input. */
  goOn(inputs: number): boolean;
  /** Called before each input, so that it is known if it ends the process. */
  next?(input: Buffer): void;
}

export interface FuzzResult {
  inputs: number;
  failures: Failure[];
}

/** An input is too expensive only if it is so each time: the first time may include compilation and garbage collection. */
const MEASUREMENTS = 3;
const MOST_FAILURES = 5;

export async function fuzz(target: FuzzTarget, { seed, goOn, next }: FuzzOptions): Promise<FuzzResult> {
  const mutated = createMutator(target, seed);
  const running = await target.start();
  const failures: Failure[] = [];
  let inputs = 0;
  try {
    for (; failures.length < MOST_FAILURES && goOn(inputs); inputs++) {
      const input = inputs < target.seeds.length ? target.seeds[inputs]! : mutated();
      next?.(input);
      const reason = await problemOf(running, input, target.budget);
      if (reason !== undefined) failures.push({ input, reason });
    }
  } finally {
    await running.stop();
  }
  return { inputs, failures };
}

/** Why the input is a failure, or undefined. */
export async function problemOf(running: RunningTarget, input: Buffer, budget: Budget): Promise<string | undefined> {
  let reason: string | undefined;
  for (let i = 0; i < MEASUREMENTS; i++) {
    try {
      reason = exceeded(await costOf(running, input), budget);
    } catch (error) {
      return error instanceof Error ? (error.stack ?? error.message) : String(error);
    }
    if (reason === undefined) return undefined;
  }
  return reason;
}

function exceeded(cost: Budget, budget: Budget): string | undefined {
  if (cost.cpuMs > budget.cpuMs) return `needs ${Math.round(cost.cpuMs)} ms of CPU time; budget ${budget.cpuMs}`;
  if (cost.memoryMb > budget.memoryMb) return `needs ${Math.round(cost.memoryMb)} MB; budget ${budget.memoryMb}`;
  return undefined;
}

/** Allocated memory that was freed meanwhile is not counted. */
async function costOf(running: RunningTarget, input: Buffer): Promise<Budget> {
  const memoryBefore = usedBytes();
  const before = process.cpuUsage();
  await running.run(input);
  const { user, system } = process.cpuUsage(before);
  return { cpuMs: (user + system) / 1_000, memoryMb: (usedBytes() - memoryBefore) / 1_048_576 };
}

function usedBytes(): number {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
