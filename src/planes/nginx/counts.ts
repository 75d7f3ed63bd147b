/** What a worker counts of one app between two reports to all workers. */

export interface AppCounts {
  allowed: number;
  refused: number;
  dryRunRefused: number;
  /** By where decisions were made. */
  local: number;
  remote: number;
  remembered: number;
  dark: number;
}

export function newCounts(): AppCounts {
  return { allowed: 0, refused: 0, dryRunRefused: 0, local: 0, remote: 0, remembered: 0, dark: 0 };
}
