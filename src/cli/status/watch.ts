/** A screen that is redrawn in place until q or Ctrl-C, then restores the terminal. */
import { cutToFit, type Line, paint, type Style } from "../printing.js";

/** The terminal functions in use; replaced in tests. */
export interface Terminal {
  readonly style: Style;
  /** Current height. */
  rows(): number;
  columns(): number;
  write(text: string): void;
  /** Calls the handler for each key until the returned function is called. */
  onKey(handler: (key: string) => void): () => void;
  onResize(handler: () => void): () => void;
  /** Called on a terminating signal. */
  onEnd(handler: () => void): () => void;
}

/** The prefix of terminal control sequences. */
const CSI = "\x1b[";
const enter = `${CSI}?1049h${CSI}?25l`;
const leave = `${CSI}?25h${CSI}?1049l`;

/** Overwrites the last frame line by line, which avoids flicker. */
export function frame(lines: Line[], columns: number, rows: number, colour: boolean): string {
  const shown = lines.slice(0, rows).map((line) => `${paint(cutToFit(line, columns), colour)}${CSI}K`);
  // Synchronised output: terminals that do not support it ignore the sequence.
  return `${CSI}?2026h${CSI}H${shown.join("\r\n")}${CSI}J${CSI}?2026l`;
}

export interface WatchOptions {
  terminal: Terminal;
  intervalMs: number;
  /** Updates the data. Must handle expected errors itself. */
  update(): Promise<void>;
  /** The current screen for a window of this size. */
  draw(size: { columns: number; rows: number }): Line[];
}

/** Draws immediately. Ends at once on request, even during an update. */
export function watch({ terminal, intervalMs, update, draw }: WatchOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    let ended = false;
    let isUpdating = false;
    let timer: NodeJS.Timeout | undefined;

    const redraw = () => {
      if (ended) return;
      const [columns, rows] = [Math.max(terminal.columns(), 1), Math.max(terminal.rows(), 1)];
      terminal.write(frame(draw({ columns, rows }), columns, rows, terminal.style.colour));
    };

    const round = () => {
      if (isUpdating || ended) return;
      clearTimeout(timer);
      isUpdating = true;
      update()
        .then(() => {
          isUpdating = false;
          redraw();
          if (!ended) timer = setTimeout(round, intervalMs);
        })
        .catch((error: unknown) => end(() => reject(error)));
    };

    const end = (finish: () => void) => {
      if (ended) return;
      ended = true;
      clearTimeout(timer);
      for (const stop of stops) stop();
      terminal.write(leave);
      finish();
    };

    terminal.write(enter);
    const stops = [
      // In raw mode, Ctrl-C and Ctrl-D arrive as keys.
      terminal.onKey((key) => {
        if (["q", "Q", "\x03", "\x04"].includes(key)) end(resolve);
        else if (key === " " || key === "\r") round();
      }),
      terminal.onResize(redraw),
      terminal.onEnd(() => end(resolve)),
    ];
    redraw();
    timer = setTimeout(round, intervalMs);
  });
}
