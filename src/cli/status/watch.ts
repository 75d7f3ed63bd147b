/** A screen that is redrawn in place until q, Ctrl-C or a signal, then restores the terminal. */
import { cutToFit, printed } from "../printing.js";

/** The prefix of terminal control sequences. */
const CSI = "\x1b[";
const enter = `${CSI}?1049h${CSI}?25l`;
const leave = `${CSI}?25h${CSI}?1049l`;
const SIGNALS: NodeJS.Signals[] = ["SIGINT", "SIGTERM", "SIGHUP"];
/** In raw mode, Ctrl-C and Ctrl-D arrive as keys. */
const QUIT_KEYS = ["q", "Q", "\x03", "\x04"];

/** Overwrites the last frame line by line, which avoids flicker. */
export function frame(lines: string[], columns: number, rows: number): string {
  const shown = lines.slice(0, rows).map((line) => `${cutToFit(line, columns)}${CSI}K`);
  // Synchronised output: terminals that do not support it ignore the sequence.
  return `${CSI}?2026h${CSI}H${shown.join("\r\n")}${CSI}J${CSI}?2026l`;
}

export interface WatchOptions {
  intervalMs: number;
  /** Updates the data. Must handle expected errors itself. */
  update(): Promise<void>;
  /** The current screen for a window of this size. */
  draw(size: { columns: number; rows: number }): string[];
  /** Default: those of the process. Without a keyboard, signals still work. */
  stdin?: NodeJS.ReadStream;
  stdout?: NodeJS.WriteStream;
}

/** Draws immediately. Ends at once on request, even during an update. */
export async function watch(options: WatchOptions): Promise<void> {
  const { intervalMs, update, draw, stdin = process.stdin, stdout = process.stdout } = options;
  let timer: NodeJS.Timeout | undefined;
  let wake = () => {};
  let end = () => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });

  const redraw = () => {
    const [columns, rows] = [Math.max(stdout.columns, 1), Math.max(stdout.rows, 1)];
    const lines = printed(draw({ columns, rows }), stdout).split("\n").slice(0, -1);
    stdout.write(frame(lines, columns, rows));
  };

  const onData = (data: Buffer) => {
    for (const key of data.toString("latin1")) {
      if (QUIT_KEYS.includes(key)) end();
      else if (key === " " || key === "\r") wake();
    }
  };

  async function updates(): Promise<void> {
    for (;;) {
      await new Promise<void>((resolve) => {
        wake = resolve;
        timer = setTimeout(resolve, intervalMs);
      });
      clearTimeout(timer);
      await update();
      if (isOver) return;
      redraw();
    }
  }

  let isOver = false;
  stdout.write(enter);
  stdout.on("resize", redraw);
  for (const signal of SIGNALS) process.on(signal, end);
  if (stdin.isTTY) stdin.setRawMode(true).on("data", onData).resume();
  try {
    redraw();
    await Promise.race([ended, updates()]);
  } finally {
    isOver = true;
    clearTimeout(timer);
    stdout.off("resize", redraw);
    for (const signal of SIGNALS) process.off(signal, end);
    if (stdin.isTTY) stdin.setRawMode(false).off("data", onData).pause();
    stdout.write(leave);
  }
}
