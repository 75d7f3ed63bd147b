/** Progress of a replay on stderr: one line that is overwritten on a terminal, periodic lines elsewhere. */
import { statSync } from "node:fs";
import { STDIN } from "../../simulate/log-lines.js";
import { percent, whole } from "../numbers.js";

export interface Progress {
  bytes(count: number): void;
  lines(count: number): void;
  /** Removes the line. */
  end(): void;
}

const TERMINAL_GAP_MS = 100;
const PLAIN_GAP_MS = 1_000;

export interface ProgressOptions {
  files: string[];
  stderr: { isTTY?: boolean; write(text: string): unknown };
  /** Even if stderr is not a terminal. */
  wanted: boolean;
  now?: () => number;
}

export function createProgress({
  files,
  stderr,
  wanted,
  now = performance.now.bind(performance),
}: ProgressOptions): Progress {
  const terminal = stderr.isTTY === true;
  if (!terminal && !wanted) return { bytes: () => undefined, lines: () => undefined, end: () => undefined };
  const total = files.includes(STDIN) ? 0 : files.reduce((sum, file) => sum + sizeOf(file), 0);
  const started = now();
  let read = 0;
  let shownAt = started;
  let shown = false;

  return {
    bytes(count) {
      read += count;
    },
    lines(count) {
      const time = now();
      if (time - shownAt < (terminal ? TERMINAL_GAP_MS : PLAIN_GAP_MS)) return;
      shownAt = time;
      shown = true;
      const part = total > 0 ? `${percent(Math.min(read / total, 1))} · ` : "";
      const perSecond = (count * 1000) / Math.max(time - started, 1);
      const text = `${part}${whole(count)} lines · ${whole(perSecond)}/s`;
      stderr.write(terminal ? `\r\x1b[K${text}` : `${text}\n`);
    },
    end() {
      if (shown && terminal) stderr.write("\r\x1b[K");
    },
  };
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}
