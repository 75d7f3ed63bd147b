/** Progress of a replay on stderr: one line that is overwritten on a terminal, periodic lines elsewhere. */
import { statSync } from "node:fs";
import { STDIN } from "../../simulate/log-lines.js";
import { percent, whole } from "../numbers.js";

interface ProgressOutput {
  isTTY?: boolean;
  write(text: string): unknown;
}

export type Progress = ReturnType<typeof createProgress>;

const TERMINAL_GAP_MS = 100;
const PLAIN_GAP_MS = 1_000;

/** `wanted`: even if stderr is not a terminal. */
export function createProgress(files: string[], wanted: boolean, stderr: ProgressOutput = process.stderr) {
  const sizeOf = (file: string) => statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  const isTerminal = stderr.isTTY === true;
  const total = files.includes(STDIN) ? 0 : files.reduce((sum, file) => sum + sizeOf(file), 0);
  const started = performance.now();
  let read = 0;
  let shownAt = started;
  let shown = false;

  return {
    bytes(count: number): void {
      read += count;
    },
    lines(count: number): void {
      const time = performance.now();
      if ((!isTerminal && !wanted) || time - shownAt < (isTerminal ? TERMINAL_GAP_MS : PLAIN_GAP_MS)) return;
      shownAt = time;
      shown = true;
      const part = total > 0 ? `${percent(Math.min(read / total, 1))} · ` : "";
      const perSecond = (count * 1000) / Math.max(time - started, 1);
      const text = `${part}${whole(count)} lines · ${whole(perSecond)}/s`;
      stderr.write(isTerminal ? `\r\x1b[K${text}` : `${text}\n`);
    },
    /** Removes the line. */
    end(): void {
      if (shown && isTerminal) stderr.write("\r\x1b[K");
    },
  };
}
