/** A line on stderr while a command takes longer than a second, on a terminal only. */

interface Terminal {
  isTTY?: boolean;
  write(text: string): unknown;
}

const FIRST_MS = 1_000;
const CLEAR = "\r\x1b[K";
/** They show their own progress, or run until they are stopped. */
const OWN_OUTPUT = ["serve", "simulate", "demo"];

/** Returns a function that ends it and removes the line. */
export function showWaiting(args: readonly string[], stderr: Terminal = process.stderr): () => void {
  const [name = ""] = args;
  if (stderr.isTTY !== true || OWN_OUTPUT.includes(name) || args.includes("--watch")) return () => {};
  let seconds = 0;
  const timer = setInterval(() => {
    seconds++;
    stderr.write(`${CLEAR}tollgate ${name}: ${seconds} s …`);
  }, FIRST_MS);
  return () => {
    clearInterval(timer);
    if (seconds > 0) stderr.write(CLEAR);
  };
}
