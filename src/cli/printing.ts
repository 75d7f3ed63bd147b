/** Terminal output: escaped text, colours, and tables that fit the width. A line is a string that may contain colours. */
import { stripVTControlCharacters, styleText } from "node:util";

const formats = { strong: "bold", faint: "dim", good: "green", warning: "yellow", bad: "red" } as const;
export type Tone = keyof typeof formats;
/** Maximum width of running text. */
const MAX_TEXT_WIDTH = 100;

/** Coloured text. `printed` removes the colours if stdout does not support them. */
export function toned(tone: Tone, text: string): string {
  return styleText(formats[tone], text, { validateStream: false });
}

export interface Stdout {
  isTTY?: boolean;
  columns?: number;
  hasColors?(): boolean;
}

/** Width of the terminal; infinite if stdout is not a terminal. */
export function columnsOf({ isTTY, columns = 80 }: Stdout = process.stdout): number {
  return isTTY === true ? columns : Number.POSITIVE_INFINITY;
}

/** The lines as text for stdout. `hasColors` respects NO_COLOR and TERM=dumb. */
export function printed(lines: string[], stdout: Stdout = process.stdout): string {
  const text = lines.map((line) => `${line}\n`).join("");
  return stdout.isTTY === true && stdout.hasColors?.() === true ? text : stripVTControlCharacters(text);
}

/**
 * Escapes characters that control the terminal or change the direction of text. Text from services and files is not
 * trusted.
 */
export function escaped(text: string): string {
  return text.replace(
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what this escapes
    /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** A copy of JSON data with all texts and names escaped. */
export function escapedData<T>(data: T): T {
  const copy = (value: unknown): unknown => {
    if (typeof value === "string") return escaped(value);
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) return value.map(copy);
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [escaped(name), copy(inner)]));
  };
  return copy(data) as T;
}

/** One line of JSON. The escapes are valid JSON and do not change the value. */
export function jsonLine(value: unknown): string {
  return `${escaped(JSON.stringify(value))}\n`;
}

/** Without colours. */
export function lengthOf(line: string): number {
  return [...stripVTControlCharacters(line)].length;
}

/** Cuts a line to the width and marks the cut with an ellipsis. */
export function cutToFit(line: string, columns: number): string {
  if (lengthOf(line) <= columns) return line;
  let left = columns - 1;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colours are kept, so that they end
  const cut = line.replace(/(\x1b\[[0-9]+m)|./gsu, (part, colour) => (colour !== undefined || left-- > 0 ? part : ""));
  return columns > 0 ? `${cut}…` : "";
}

/** Wraps text between words. A word that is too long gets its own line. */
export function wrapped(text: string, columns: number, indent = ""): string[] {
  const width = Math.max(Math.min(columns, MAX_TEXT_WIDTH) - indent.length, 20);
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const longer = `${lines.at(-1)} ${word}`;
    if (lines.length > 0 && longer.length <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines.map((line) => indent + line);
}

/**
 * A table with a heading. Columns with > before their title are aligned to the right. While the terminal is too narrow,
 * columns whose titles are in `spare` are dropped, in this order.
 */
export function tableLines(
  headings: string[],
  rows: string[][],
  columns: number,
  { spare = [], indent = "" }: { spare?: string[]; indent?: string } = {},
): string[] {
  let kept = headings.map((heading, at) => {
    const title = heading.replace(/^>/, "");
    const width = rows.reduce((widest, row) => Math.max(widest, lengthOf(row[at] ?? "")), title.length);
    return { title, width, alignsRight: heading.startsWith(">"), cellOf: (row: string[]) => row[at] ?? "" };
  });
  for (const dropped of spare) {
    if (kept.reduce((sum, { width }) => sum + width + 2, indent.length - 2) <= columns) break;
    kept = kept.filter(({ title }) => title !== dropped);
  }
  const lineOf = (textOf: (column: (typeof kept)[number]) => string) => {
    const padded = kept.map((column) => {
      const text = textOf(column);
      const padding = " ".repeat(column.width - lengthOf(text));
      return column.alignsRight ? padding + text : text + padding;
    });
    return `${indent}${padded.join("  ")}`.trimEnd();
  };
  return [lineOf(({ title }) => toned("faint", title)), ...rows.map((row) => lineOf(({ cellOf }) => cellOf(row)))];
}

interface Terminal {
  isTTY?: boolean;
  write(text: string): unknown;
}

const FIRST_MS = 1_000;
const CLEAR = "\r\x1b[K";
/** They show their own progress, or run until they are stopped. */
const OWN_OUTPUT = ["serve", "simulate", "demo"];

/**
 * Writes a line to stderr while a command takes longer than a second, on a terminal only. Returns a function that ends it and
 * removes the line.
 */
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
