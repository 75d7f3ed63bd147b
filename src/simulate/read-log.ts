/** Reads the requests of a log in the order of their arrival, with bounded memory. */
import { createInOrder } from "./in-order.js";
import { createReader, DETECTION_LINES, detectFormat, type LineReader, type LogFormat } from "./log-format.js";
import type { AppRule, FieldNames, LoggedRequest } from "./logged-request.js";

export interface ReadLogOptions {
  /** The lines of all logs, several at a time. */
  lines: AsyncIterable<string[]>;
  /** Undefined: detect it from the first lines. */
  format?: LogFormat | undefined;
  fields: FieldNames;
  /** How to find the app. Undefined: the default of the format. */
  rules?: AppRule[] | undefined;
  toleranceMs: number;
  /** Requests have what limits and routes depend on. */
  hasLimits: boolean;
  /** Called with the number of lines read so far. */
  onProgress?: ((lines: number) => void) | undefined;
}

const EXAMPLES = 5;
const EXAMPLE_LENGTH = 120;
/** About 30 MB of requests. */
const MAX_HELD = 200_000;

/** `submit` returns a promise only if it has to wait. */
export async function readLog(
  { lines, fields, rules, toleranceMs, hasLimits, onProgress, ...options }: ReadLogOptions,
  submit: (request: LoggedRequest) => Promise<unknown> | undefined,
) {
  const ordered = createInOrder(toleranceMs, MAX_HELD);
  const result = {
    lines: 0,
    requests: 0,
    badLines: 0,
    /** The first bad lines. */
    examples: [] as { line: number; reason: string; text: string }[],
    /** Milliseconds since 1970 of the first and last request; undefined without requests. */
    firstMs: undefined as number | undefined,
    lastMs: undefined as number | undefined,
  };
  let { format } = options;
  let reader: LineReader | undefined;
  /** Lines that were not read yet; before the format is known, the first ones. */
  let waiting: string[] = [];

  function readLine(text: string, read: LineReader): void {
    result.lines++;
    if (text === "" || text === "\r") return;
    const request = read(text.endsWith("\r") ? text.slice(0, -1) : text, result.lines);
    if (typeof request !== "string") {
      ordered.add(request);
      return;
    }
    result.badLines++;
    if (result.examples.length < EXAMPLES) {
      result.examples.push({ line: result.lines, reason: request, text: text.slice(0, EXAMPLE_LENGTH) });
    }
  }

  /** `all`: no more lines will come. */
  async function readWaiting(all: boolean): Promise<void> {
    if (reader === undefined) {
      const some = waiting.filter((text) => text.trim() !== "");
      if (format === undefined && !all && some.length < DETECTION_LINES) return;
      format ??= detectFormat(some.slice(0, DETECTION_LINES), fields) ?? "combined";
      reader = createReader(format, { fields, rules, hasLimits });
    }
    for (const text of waiting) readLine(text, reader);
    waiting = [];
    for (const request of ordered.take(all)) {
      result.firstMs ??= request.at;
      result.lastMs = request.at;
      result.requests++;
      const pending = submit(request);
      if (pending !== undefined) await pending;
    }
    onProgress?.(result.lines);
  }

  for await (const texts of lines) {
    for (const text of texts) waiting.push(text);
    await readWaiting(false);
  }
  await readWaiting(true);
  return { ...result, format: result.requests > 0 ? format : undefined, late: ordered.late() };
}
