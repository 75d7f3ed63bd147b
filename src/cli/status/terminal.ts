/** The terminal of the process: keys, size, signals. */
import { styleOf } from "../printing.js";
import type { Terminal } from "./watch.js";

const SIGNALS: NodeJS.Signals[] = ["SIGINT", "SIGTERM", "SIGHUP"];

/** Undefined if stdout is not a terminal with cursor control. */
export function processTerminal(): Terminal | undefined {
  const { stdin, stdout } = process;
  if (!stdout.isTTY || process.env.TERM === "dumb") return undefined;
  return {
    style: styleOf(stdout),
    rows: () => stdout.rows,
    columns: () => stdout.columns,
    write: (text) => void stdout.write(text),
    onKey(handler) {
      // Without keyboard input, signals still work.
      if (!stdin.isTTY) return () => {};
      const onData = (data: Buffer) => {
        for (const key of data.toString("latin1")) handler(key);
      };
      stdin.setRawMode(true);
      stdin.on("data", onData);
      stdin.resume();
      return () => {
        stdin.off("data", onData);
        stdin.setRawMode(false);
        stdin.pause();
      };
    },
    onResize(handler) {
      stdout.on("resize", handler);
      return () => stdout.off("resize", handler);
    },
    onEnd(handler) {
      for (const signal of SIGNALS) process.on(signal, handler);
      return () => {
        for (const signal of SIGNALS) process.off(signal, handler);
      };
    },
  };
}
