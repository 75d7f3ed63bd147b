/** Draws a screen again and again, in place and without flicker, until q or Ctrl-C; the terminal is then as it was. */
import { cutToFit, type Line, paint, type Style } from "../printing.js";

/** The part of a terminal that is used; of the process, or of a test. */
export interface Terminal {
  readonly style: Style;
  /** Lines of the window; may change. */
  rows(): number;
  columns(): number;
  write(text: string): void;
  /** Calls back for each key until the answer is called. */
  onKey(handler: (key: string) => void): () => void;
  onResize(handler: () => void): () => void;
  /** Asked by a signal to end. */
  onEnd(handler: () => void): () => void;
}

/** What begins every order to a terminal. */
const CSI = "\x1b[";
const enter = `${CSI}?1049h${CSI}?25l`;
const leave = `${CSI}?25h${CSI}?1049l`;

/** One frame over the last: every line is overwritten to its end, so nothing is cleared that is drawn again. */
export function frame(lines: Line[], columns: number, rows: number, colour: boolean): string {
  const shown = lines.slice(0, rows).map((line) => `${paint(cutToFit(line, columns), colour)}${CSI}K`);
  // Terminals that know it show the whole frame at once; the others ignore it.
  return `${CSI}?2026h${CSI}H${shown.join("\r\n")}${CSI}J${CSI}?2026l`;
}

export interface WatchOptions {
  terminal: Terminal;
  intervalMs: number;
  /** Never throws: a look that failed is for `draw` to show. */
  look(): Promise<void>;
  /** The screen as it is now, for a window of this size. */
  draw(size: { columns: number; rows: number }): Line[];
}

/** The first screen is there already. Ends when the person wants it to, at once, whatever is still under way. */
export function watch({ terminal, intervalMs, look, draw }: WatchOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    let ended = false;
    let isLooking = false;
    let timer: NodeJS.Timeout | undefined;

    const redraw = () => {
      if (ended) return;
      const [columns, rows] = [Math.max(terminal.columns(), 1), Math.max(terminal.rows(), 1)];
      terminal.write(frame(draw({ columns, rows }), columns, rows, terminal.style.colour));
    };

    const round = () => {
      if (isLooking || ended) return;
      clearTimeout(timer);
      isLooking = true;
      look()
        .then(() => {
          isLooking = false;
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
      // Ctrl-C and Ctrl-D are keys like others while the terminal hands them over one by one.
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
