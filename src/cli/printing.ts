/** Terminal output: escaped text, colours, and tables that fit the width. */

export interface Style {
  colour: boolean;
  /** Width of the terminal; infinite if stdout is not a terminal. */
  columns: number;
}

export type Tone = "strong" | "faint" | "good" | "warning" | "bad";
export type Span = string | { tone: Tone; text: string };
/** A line consists of spans, so that it can be measured and cut before colours are added. */
export type Line = Span[];

const sequences: Record<Tone, string> = { strong: "1", faint: "2", good: "32", warning: "33", bad: "31" };
/** Maximum width of running text. */
const MAX_TEXT_WIDTH = 100;

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

/** One line of JSON. The escapes are valid JSON and do not change the value. */
export function jsonLine(value: unknown): string {
  return `${escaped(JSON.stringify(value))}\n`;
}

export function textOf(span: Span): string {
  return escaped(typeof span === "string" ? span : span.text);
}

export function lengthOf(line: Line): number {
  return line.reduce((sum, span) => sum + [...textOf(span)].length, 0);
}

/** The lines as text for the terminal. */
export function printed(lines: Line[], { colour }: Style): string {
  return lines.map((line) => `${paint(line, colour)}\n`).join("");
}

/** Cuts a line to the width and marks the cut with an ellipsis. */
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

/** Wraps text between words. A word that is too long gets its own line. */
export function wrapped(text: string, { columns }: Style, indent = ""): Line[] {
  const width = Math.max(Math.min(columns, MAX_TEXT_WIDTH) - indent.length, 20);
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
  /** Align to the right. */
  right?: boolean;
  /** Columns with the highest value are dropped first if the terminal is too narrow. Others are never dropped. */
  spare?: number;
}

/** A table with a heading. Drops spare columns until it fits. */
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
