/** What is fuzzed: a function that must survive any bytes, within budgets of CPU time and memory. */

export interface FuzzTarget {
  /** Valid inputs, and invalid ones that were interesting. Mutations start from these. */
  seeds: readonly Buffer[];
  /** Texts that mutations insert. */
  words: readonly string[];
  maxBytes: number;
  /** For one input. */
  budget: Budget;
  start(): Promise<RunningTarget>;
}

export interface Budget {
  cpuMs: number;
  memoryMb: number;
}

export interface RunningTarget {
  /** Throws if the input is handled wrongly. Input that is rejected properly is no error. */
  run(input: Buffer): void | Promise<void>;
  stop(): Promise<void>;
}

/** The byte at this position, or 0 after the end. */
export const byteAt = (input: Buffer, at: number) => input[at] ?? 0;
