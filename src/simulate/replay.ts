/** Replays a log against one or more configurations at once, reading it once and holding none of it. */
import { createInOrder } from "./in-order.js";
import {
  createParser,
  defaultRules,
  type FormatOptions,
  LINES_TO_TELL,
  type LogFormat,
  tellFormat,
} from "./log-format.js";
import { copyOf } from "./log-times.js";
import { type AppRule, emptyLine, type LineParser, type LoggedRequest, requestOf } from "./logged-request.js";
import { type AppOutcome, createWorld, type World, type WorldSettings } from "./world.js";

export interface ReplayOptions extends FormatOptions {
  /** Some lines at a time, of all logs one after the other. */
  lines: AsyncIterable<string[]>;
  worlds: WorldSettings[];
  nodes: number;
  /** Undefined: found out from the first lines. */
  format?: LogFormat | undefined;
  /** Where the app stands; undefined: where the format usually has it. */
  rules?: AppRule[] | undefined;
  toleranceMs: number;
  /** Told now and then. */
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
  /** The first of them. */
  examples: BadLine[];
  late: number;
  /** Milliseconds since 1970, of the first and the last request; undefined where there is none. */
  firstMs: number | undefined;
  lastMs: number | undefined;
  /** In the order of the worlds. */
  outcomes: { apps: AppOutcome[]; timeline: { startMs: number; stepMs: number } }[];
}

const EXAMPLES = 5;
const LONGEST_EXAMPLE = 120;
/** About 30 MB of requests. */
const MOST_HELD = 200_000;

export async function replay(options: ReplayOptions): Promise<Replay> {
  const ordered = createInOrder({ toleranceMs: options.toleranceMs, mostHeld: MOST_HELD });
  const line = emptyLine();
  const result = {
    ...{ lines: 0, requests: 0, badLines: 0, examples: [] as BadLine[] },
    ...{ firstMs: undefined as number | undefined, lastMs: undefined as number | undefined },
  };
  let format = options.format;
  let parse: LineParser | undefined;
  let rules: AppRule[] = options.rules ?? [];
  let worlds: World[] = [];
  /** Lines that were read before the format was known. */
  let waiting: string[] = [];

  function begin(known: LogFormat): void {
    format = known;
    parse = createParser(known, options);
    rules = options.rules ?? defaultRules(known, options);
  }

  function complain(reason: string, text: string): void {
    result.badLines++;
    if (result.examples.length < EXAMPLES) {
      result.examples.push({ line: result.lines, reason, text: copyOf(text.slice(0, LONGEST_EXAMPLE)) });
    }
  }

  function submit(request: LoggedRequest): Promise<unknown> | undefined {
    if (result.firstMs === undefined) {
      result.firstMs = request.at;
      worlds = options.worlds.map((settings) =>
        createWorld({ ...settings, nodes: options.nodes, startMs: request.at }),
      );
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
      else complain(reason, text);
    }
    await submitReady(false);
    options.onProgress?.({ lines: result.lines, requests: result.requests });
  }

  /** Looks at the first lines; with `all` there are no more to come. */
  async function readFirst(all: boolean): Promise<void> {
    const some = waiting.filter((text) => text.trim() !== "");
    if (!all && some.length < LINES_TO_TELL) return;
    begin(tellFormat(some.slice(0, LINES_TO_TELL), options) ?? "combined");
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
