/** The counters in sync messages: their schema, which bounds their size, and their form in plain text. */
import * as z from "zod";
import { LATENCY_BOUNDS_SECONDS } from "../../../core/latency.js";
import { isIdentifier } from "../../../core/platform.js";
import { NO_APP_REPORT } from "../../metrics/reports.js";
import { count, identifier } from "../../operations/contract/fields.js";
import { badField } from "../../operations/endpoint.js";
import { malformedLine, numberOf } from "./text.js";

const MOST_APPS = 200;
const MOST_PODS = 1_000;
const MOST_NAMES = 64;
const MOST_VALUES = 32;
const MOST_REFUSALS = 200;
const NAME = /^[A-Za-z0-9_]{1,64}$/;
const INVALID_NAME = "must have names of A–Z a–z 0–9 _ only";
const TOO_MANY_NAMES = `must have at most ${MOST_NAMES} names`;

const name = () => z.string().regex(NAME, INVALID_NAME);

function named<T>(value: z.ZodType<T>) {
  return z.record(name(), value).refine((numbers) => Object.keys(numbers).length <= MOST_NAMES, TOO_MANY_NAMES);
}

const appCounters = z.object({
  app: z
    .string()
    .refine((app) => app === NO_APP_REPORT || isIdentifier(app), "must be * or 1 to 128 of A–Z a–z 0–9 . _ : -")
    .describe("* for requests without an app."),
  numbers: named(z.array(count()).max(MOST_VALUES)).describe(
    "Since the last batch. l3: hits, misses. latency_local, latency_remote: sum of decision times in nanoseconds, and decisions that " +
      `took up to ${LATENCY_BOUNDS_SECONDS.map((seconds) => Number((seconds * 1000).toPrecision(3))).join(", ")} ms and more. ` +
      "A method: allowed, rejected, dry run, sum of costs, and requests " +
      "that cost up to 1, 2, 5, 10, 25, 50, 100, 500, 1000, 10000, 100000 and more. A code: refusals.",
  ),
});

/** Codes, methods and sources that this version does not know are ignored later. */
const refusal = z.object({
  app: identifier(),
  at: count().describe("Milliseconds on the clock of the data plane; `clock` of the node is the current time."),
  code: name(),
  method: name(),
  cost: count(),
  balance: z.int().describe("Tokens on the lease; negative if spent without the store."),
  remaining: count(),
  limit: count(),
  retry_after_ms: count(),
  source: name(),
  dry_run: z.boolean().describe("The request was admitted because of a dry run."),
  limit_name: identifier().optional().describe("The limit of `limits` that refused it."),
});

export const syncCounters = z
  .object({
    node: named(count())
      .default({})
      .describe(
        "Gauges of the node: level, emergency, syncs, failed_syncs, memory_free_bytes, clock, outdated, envoy (1 for Envoy).",
      ),
    pods: z
      .array(
        z.object({ route: z.string().max(1_000), upstream: identifier(), pod: z.string().max(256), active: count() }),
      )
      .max(MOST_PODS)
      .optional()
      .describe(
        "Open connections by route and pod, without pods that have none. If it is missing, the last list stays.",
      ),
    batch: count().default(0).describe("Number of the batch, from 1; it is repeated until it is acknowledged."),
    apps: z.array(appCounters).max(MOST_APPS).default([]),
    refusals: z
      .array(refusal)
      .max(MOST_REFUSALS)
      .default([])
      .describe("Some of the refusals since the last batch, for GET /admin/ratelimit/apps."),
  })
  .refine(({ apps, refusals, batch }) => apps.length + refusals.length === 0 || batch > 0, {
    path: ["batch"],
    error: "is missing",
  })
  .describe("Counters of the data plane.");

/**
 * The last lines of a text message: `#node name=n …`, `#pods` with `#pod route upstream pod connections` per pod, `#numbers batch`,
 * `#app app name=n,n,… …` per app, and `#refused …` per refusal.
 * @param first the number of the first line
 */
export function readCounters(lines: string[], first: number): z.input<typeof syncCounters> {
  const node: Record<string, number> = {};
  const apps: { app: string; numbers: Record<string, number[]> }[] = [];
  const refusals: unknown[] = [];
  let pods: unknown[] | undefined;
  let batch: unknown;
  lines.forEach((line, i) => {
    const field = `line ${first + i}`;
    const [kind = "", ...words] = line.split(" ");
    if (kind === "#node") for (const [name, values] of pairs(words, field)) node[name] = values[0]!;
    else if (kind === "#pods") pods = [];
    else if (kind === "#pod") {
      const [route, upstream, pod, active] = words;
      pods?.push({ route, upstream, pod, active: numberOf(active) });
    } else if (kind === "#numbers") batch = numberOf(words[0]);
    else if (kind === "#app")
      apps.push({ app: words[0] ?? "", numbers: Object.fromEntries(pairs(words.slice(1), field)) });
    else if (kind === "#refused") refusals.push(refusalOf(words, first + i));
    else if (!kind.startsWith("#")) throw badField(field, "must begin with #, because the line before does");
  });
  const counters = { node, pods, batch, apps, refusals };
  return counters as z.input<typeof syncCounters>;
}

function refusalOf(words: string[], line: number): unknown {
  const [app, at, code, method, cost, balance, remaining, limit, retryAfterMs, source, dryRun, limitName] = words;
  if (dryRun === undefined) {
    const wanted =
      "#refused app at code method cost balance remaining limit retry_after_ms source dry_run [limit_name]";
    throw malformedLine(line, wanted);
  }
  return {
    app,
    at: numberOf(at),
    code,
    method,
    cost: numberOf(cost),
    balance: balance?.startsWith("-") ? -Number(numberOf(balance.slice(1))) : numberOf(balance),
    remaining: numberOf(remaining),
    limit: numberOf(limit),
    retry_after_ms: numberOf(retryAfterMs),
    source,
    dry_run: dryRun === "1",
    ...(limitName === undefined ? {} : { limit_name: limitName }),
  };
}

function pairs(words: string[], field: string): [string, number[]][] {
  return words.map((word) => {
    const [name = "", list = ""] = word.split("=", 2);
    if (!NAME.test(name)) throw badField(field, INVALID_NAME);
    const values = list.split(",").map(numberOf);
    if (values.every((value) => typeof value === "number")) return [name, values];
    throw badField(`${field} ${name}`, "must be whole numbers from 0, separated by commas");
  });
}
