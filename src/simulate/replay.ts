/** Replays a log against one or more configurations in one pass, with bounded memory. */
import { createInOrder } from "./in-order.js";
import { createParser, DETECTION_LINES, defaultRules, detectFormat, type LogFormat } from "./log-format.js";
import {
  type AppRule,
  emptyLine,
  type FieldNames,
  type LineParser,
  type LoggedRequest,
  requestOf,
} from "./logged-request.js";
import { type AppOutcome, createWorld, type World, type WorldConfig } from "./world.js";

export interface ReplayOptions {
  /** The lines of all logs, several at a time. */
  lines: AsyncIterable<string[]>;
  worlds: WorldConfig[];
  nodes: number;
  /** Undefined: detect it from the first lines. */
  format?: LogFormat | undefined;
  fields: FieldNames;
  /** How to find the app. Undefined: the default of the format. */
  rules?: AppRule[] | undefined;
  toleranceMs: number;
  onProgress?: (soFar: { lines: number; requests: number }) => void;
}

export interface BadLine {
  line: number;
  reason: string;
  text: string;
}

export interface Replay {
  format: LogFormat | undefined;
  lines: number;
  requests: number;
  badLines: number;
  /** The first bad lines. */
  examples: BadLine[];
  late: number;
  /** Milliseconds since 1970 of the first and last request; undefined if there is none. */
  firstMs: number | undefined;
  lastMs: number | undefined;
  /** In the order of the worlds. */
  outcomes: { apps: AppOutcome[]; timeline: { startMs: number; stepMs: number } }[];
}

const EXAMPLES = 5;
const EXAMPLE_LENGTH = 120;
/** About 30 MB of requests. */
const MAX_HELD = 200_000;

export async function replay(options: ReplayOptions): Promise<Replay> {
  const ordered = createInOrder({ toleranceMs: options.toleranceMs, maxHeld: MAX_HELD });
  const line = emptyLine();
  const result: Omit<Replay, "format" | "late" | "outcomes"> = {
    lines: 0,
    requests: 0,
    badLines: 0,
    examples: [],
    firstMs: undefined,
    lastMs: undefined,
  };
  let format = options.format;
  let parse: LineParser | undefined;
  let rules: AppRule[] = options.rules ?? [];
  let worlds: World[] = [];
  /** Lines read before the format is known. */
  let waiting: string[] = [];

  function begin(known: LogFormat): void {
    format = known;
    parse = createParser(known, options.fields);
    rules = options.rules ?? defaultRules(known, options.fields);
  }

  function rejectLine(reason: string, text: string): void {
    result.badLines++;
    if (result.examples.length < EXAMPLES) {
      result.examples.push({ line: result.lines, reason, text: text.slice(0, EXAMPLE_LENGTH) });
    }
  }

  function submit(request: LoggedRequest): Promise<unknown> | undefined {
    if (result.firstMs === undefined) {
      result.firstMs = request.at;
      worlds = options.worlds.map((config) => createWorld({ ...config, nodes: options.nodes, startMs: request.at }));
    }
    result.lastMs = request.at;
    result.requests++;
    if (worlds.length === 1) return worlds[0]!.submit(request);
    const pending = worlds.map((world) => world.submit(request)).filter((one) => one !== undefined);
    return pending.length > 0 ? Promise.all(pending) : undefined;
  }

  async function submitReady(all: boolean): Promise<void> {
    for (let request = ordered.next(all); request !== undefined; request = ordered.next(all)) {
      const pending = submit(request);
      if (pending !== undefined) await pending;
    }
  }

  async function readLines(texts: string[], known: LineParser): Promise<void> {
    for (const text of texts) {
      result.lines++;
      if (text === "" || text === "\r") continue;
      const reason = known(text.endsWith("\r") ? text.slice(0, -1) : text, line);
      if (reason === "") ordered.add(requestOf(line, rules, result.lines));
      else rejectLine(reason, text);
    }
    await submitReady(false);
    options.onProgress?.({ lines: result.lines, requests: result.requests });
  }

  /** Detects the format once enough lines are there; `all`: no more will come. */
  async function readFirst(all: boolean): Promise<void> {
    const some = waiting.filter((text) => text.trim() !== "");
    if (!all && some.length < DETECTION_LINES) return;
    begin(detectFormat(some.slice(0, DETECTION_LINES), options.fields) ?? "combined");
    const texts = waiting;
    waiting = [];
    await readLines(texts, parse!);
  }

  if (format !== undefined) begin(format);
  for await (const texts of options.lines) {
    if (parse !== undefined) {
      await readLines(texts, parse);
    } else {
      waiting.push(...texts);
      await readFirst(false);
    }
  }
  if (parse === undefined) await readFirst(true);
  await submitReady(true);
  const outcomes = [];
  for (const { finish, tally } of worlds) {
    const apps = await finish();
    outcomes.push({ apps, timeline: { startMs: tally.timeline.startMs, stepMs: tally.timeline.stepMs() } });
  }
  return { ...result, format: result.requests > 0 ? format : undefined, late: ordered.late(), outcomes };
}
