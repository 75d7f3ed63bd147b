/** Text for people: lines of escaped text, coloured sparingly where the terminal takes it, and tables that fit its width. */

export interface Style {
  colour: boolean;
  /** How wide the terminal is; endless where it is none. */
  columns: number;
}

export type Tone = "strong" | "faint" | "good" | "warning" | "bad";
export type Span = string | { tone: Tone; text: string };
/** A line is made of spans, so that it can be measured and cut before it is coloured. */
export type Line = Span[];

const sequences: Record<Tone, string> = { strong: "1", faint: "2", good: "32", warning: "33", bad: "31" };
/** Longer lines of running text are hard to read, however wide the terminal is. */
const WIDEST_TEXT = 100;

export function styleOf(
  stdout: { isTTY?: boolean; columns?: number },
  env: Record<string, string | undefined> = process.env,
): Style {
  if (stdout.isTTY !== true) return { colour: false, columns: Number.POSITIVE_INFINITY };
  const plain = (env.NO_COLOR ?? "") !== "" || env.TERM === "dumb";
  return { colour: !plain, columns: stdout.columns ?? 80 };
}

export function toned(tone: Tone, text: string): Span {
  return { tone, text };
}

/**
 * Nothing in it moves the cursor, changes the terminal, or makes text look like other text. What comes from a service or
 * a file may hold anything.
 */
export function escaped(text: string): string {
  return text.replace(
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
    /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** One line of JSON. Escapes mean the same in it, so it stays what it was. */
export function jsonLine(value: unknown): string {
  return `${escaped(JSON.stringify(value))}\n`;
}

export function textOf(span: Span): string {
  return escaped(typeof span === "string" ? span : span.text);
}

export function lengthOf(line: Line): number {
  return line.reduce((sum, span) => sum + [...textOf(span)].length, 0);
}

/** The lines as the terminal gets them. */
export function printed(lines: Line[], { colour }: Style): string {
  return lines.map((line) => `${paint(line, colour)}\n`).join("");
}

/** One line of at most so many columns: what does not fit is cut off, and an ellipsis says so. */
export function cutToFit(line: Line, columns: number): Line {
  if (lengthOf(line) <= columns) return line;
  const cut: Line = [];
  let left = Math.max(columns - 1, 0);
  for (const span of line) {
    const characters = [...textOf(span)].slice(0, left);
    left -= characters.length;
    const text = characters.join("");
    if (text !== "") cut.push(typeof span === "string" ? text : { ...span, text });
    if (left === 0) break;
  }
  return columns > 0 ? [...cut, "…"] : [];
}

export function paint(line: Line, colour: boolean): string {
  const text = line
    .map((span) =>
      colour && typeof span !== "string" ? `\x1b[${sequences[span.tone]}m${textOf(span)}\x1b[0m` : textOf(span),
    )
    .join("");
  return colour ? text : text.trimEnd();
}

/** Running text, broken between words. A word that is too long stands on a line of its own. */
export function wrapped(text: string, { columns }: Style, indent = ""): Line[] {
  const width = Math.max(Math.min(columns, WIDEST_TEXT) - indent.length, 20);
  const lines: string[] = [];
  let current = "";
  for (const word of escaped(text).split(" ")) {
    const longer = current === "" ? word : `${current} ${word}`;
    if (longer.length > width && current !== "") {
      lines.push(current);
      current = word;
    } else {
      current = longer;
    }
  }
  if (current !== "") lines.push(current);
  return lines.map((line) => [indent + line]);
}

export interface Column {
  title: string;
  /** Numbers stand to the right. */
  right?: boolean;
  /** Left out where the terminal is too narrow, the highest first. Without it the column always stays. */
  spare?: number;
}

/** A heading and rows, in columns as wide as they need to be; spare columns go until the rest fits. */
export function tableLines(columns: Column[], rows: Span[][], { columns: width }: Style, indent = ""): Line[] {
  const widths = columns.map(({ title }, at) =>
    rows.reduce((widest, row) => Math.max(widest, lengthOf([row[at] ?? ""])), title.length),
  );
  const kept = columns.map((_, at) => at);
  const total = () => kept.reduce((sum, at) => sum + (widths[at] ?? 0) + 2, indent.length - 2);
  while (total() > width) {
    const spare = kept.reduce((worst, at) => Math.max(worst, columns[at]?.spare ?? 0), 0);
    if (spare === 0) break;
    kept.splice(
      kept.findIndex((at) => columns[at]?.spare === spare),
      1,
    );
  }
  const lineOf = (cells: Span[]): Line =>
    kept.flatMap((at, place) => {
      const cell = cells[at] ?? "";
      const padding = " ".repeat(Math.max((widths[at] ?? 0) - lengthOf([cell]), 0));
      const gap = place === 0 ? indent : "  ";
      return columns[at]?.right === true ? [gap + padding, cell] : [gap, cell, padding];
    });
  return [lineOf(columns.map(({ title }) => toned("faint", title))), ...rows.map(lineOf)];
}
