/**
 * Writes log lines to a file descriptor. A target that is full, closed or slow neither ends nor delays the process: lines
 * wait in a bounded buffer, and those that cannot be written are counted as lost.
 */
import { fstatSync, writeSync } from "node:fs";

export interface LogWriterOptions {
  /** Default: standard output. */
  fd?: number;
  /** A line was lost. */
  lost?: (() => void) | undefined;
  /** Writing succeeds again after `count` lines were lost. */
  recovered?: (count: number) => void;
}

const MOST_WAITING_BYTES = 1024 * 1024;
const RETRY_MS = 50;

export function createLogWriter({ fd = 1, lost = () => {}, recovered = () => {} }: LogWriterOptions = {}) {
  const unblock = unblocker(fd);
  let waiting: Buffer[] = [];
  let waitingBytes = 0;
  let unreported = 0;
  let retry: NodeJS.Timeout | undefined;
  process.on("exit", writeWaiting);

  function lose(): void {
    unreported++;
    lost();
  }

  /** Returns what could not be written yet; undefined if nothing is left, because it was written or is lost. */
  function attempt(line: Buffer): Buffer | undefined {
    try {
      unblock();
      const written = writeSync(fd, line);
      return written < line.length ? line.subarray(written) : undefined;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EAGAIN") return line;
      lose();
      return undefined;
    }
  }

  function writeWaiting(): void {
    clearTimeout(retry);
    retry = undefined;
    const lines = waiting;
    waiting = [];
    waitingBytes = 0;
    for (const [i, line] of lines.entries()) {
      const rest = attempt(line);
      if (rest === undefined) continue;
      waiting = [rest, ...lines.slice(i + 1)];
      waitingBytes = waiting.reduce((sum, { length }) => sum + length, 0);
      retry = setTimeout(writeWaiting, RETRY_MS).unref();
      return;
    }
    reportLost();
  }

  function reportLost(): void {
    const count = unreported;
    if (count === 0) return;
    unreported = 0;
    recovered(count);
  }

  return {
    /** Synchronous if the target accepts the line, so that an exiting process loses none. */
    write(text: string): void {
      const line = Buffer.from(text);
      if (waiting.length > 0) {
        if (waitingBytes + line.length > MOST_WAITING_BYTES) {
          lose();
          return;
        }
        waiting.push(line);
        waitingBytes += line.length;
        return;
      }
      const before = unreported;
      const rest = attempt(line);
      if (rest !== undefined) {
        waiting = [rest];
        waitingBytes = rest.length;
        retry = setTimeout(writeWaiting, RETRY_MS).unref();
      } else if (unreported === before) reportLost();
    },
  };
}

/** The stream that Node has for standard output, if that is a pipe or a socket. */
interface PipeStream {
  _handle?: { setBlocking?(isBlocking: boolean): unknown } | null;
}

/**
 * A write to a full pipe would block the process. Every process that shares the pipe can change its mode, and Node does so
 * when it starts and ends one: it is set again before each write.
 */
function unblocker(fd: number): () => void {
  try {
    const stats = fstatSync(fd);
    if (!stats.isFIFO() && !stats.isSocket()) return () => {};
  } catch {
    return () => {};
  }
  const stream = (fd === 1 ? process.stdout : process.stderr) as unknown as PipeStream;
  return () => void stream._handle?.setBlocking?.(false);
}
