/** The result of `tollgate simulate`, as text and as JSON. */
import type { Replay } from "../../simulate/replay.js";
import type { Worst } from "../../simulate/tally.js";
import type { AppOutcome } from "../../simulate/world.js";
import { percent, span, whole } from "../numbers.js";
import { type Column, type Line, type Span, type Style, tableLines, toned, wrapped } from "../printing.js";

export interface Report {
  replay: Replay;
  /** The configuration files, in the order of the outcomes. */
  configs: string[];
  nodes: number;
}

type Totals = Pick<AppOutcome, "requests" | "admitted" | "refused" | "dryRunRefused" | "tokens">;

const BARS = "▁▂▃▄▅▆▇█";
/** Requests without a valid app. */
const NO_APP = "(no app)";

export function reportLines(report: Report, style: Style): Line[] {
  const { replay, configs } = report;
  const [first, second] = replay.outcomes;
  const lines = [...headLines(report, style)];
  if (first === undefined) return lines;
  if (second === undefined) {
    lines.push([], ...outcomeLines(first.apps, style));
    lines.push(...whenLines(first, undefined));
    return lines;
  }
  lines.push([], ...comparisonLines(first.apps, second.apps, style));
  for (const [i, outcome] of replay.outcomes.entries()) lines.push(...whenLines(outcome, configs[i]));
  return lines;
}

function headLines({ replay, configs, nodes }: Report, style: Style): Line[] {
  const { requests, firstMs = 0, lastMs = 0, badLines, lines, late, format, examples } = replay;
  if (requests === 0) return [[lines === 0 ? "The log is empty." : `None of the ${whole(lines)} lines is a request.`]];
  const proxies = nodes === 1 ? "1 node" : `${whole(nodes)} nodes`;
  const head: Line[] = [
    [toned("strong", `${whole(requests)} requests`), ` in ${span((lastMs - firstMs) / 1000)}, from `],
    [`${proxies}, log format ${format}`],
  ];
  head[0]!.push(`${dateTime(firstMs)} to ${dateTime(lastMs)} UTC`);
  if (configs.length > 1) head.push([`A is ${configs[0]}, B is ${configs[1]}`]);
  if (late > 0) {
    const text = `${whole(late)} lines were further out of order than --tolerance allows and count at a later time.`;
    head.push(...wrapped(text, style));
  }
  if (badLines > 0) {
    const share = percent(badLines / Math.max(lines, 1));
    head.push([toned("warning", `${whole(badLines)} lines could not be read`), ` (${share}). The first ones:`]);
    for (const { line, reason, text } of examples) head.push([`  line ${line}: ${reason}: `, toned("faint", text)]);
  }
  return head;
}

function totalsOf(apps: AppOutcome[]): Totals {
  const sum = (pick: (app: AppOutcome) => number) => apps.reduce((total, app) => total + pick(app), 0);
  return {
    requests: sum((app) => app.requests),
    admitted: sum((app) => app.admitted),
    refused: sum((app) => app.refused),
    dryRunRefused: sum((app) => app.dryRunRefused),
    tokens: sum((app) => app.tokens),
  };
}

const nameOf = (app: string) => (app === "" ? NO_APP : app);
const refusedCell = (refused: number): Span => (refused > 0 ? toned("bad", whole(refused)) : whole(refused));

function outcomeLines(apps: AppOutcome[], style: Style): Line[] {
  const totals = totalsOf(apps);
  const dry = totals.dryRunRefused > 0;
  const columns: Column[] = [
    { title: "app" },
    { title: "requests", right: true },
    { title: "admitted", right: true },
    { title: "refused", right: true },
    { title: "share", right: true },
    ...(dry ? [{ title: "would refuse", right: true }] : []),
    { title: "tokens", right: true, spare: 1 },
    { title: "why", spare: 2 },
  ];
  const row = (name: Span, one: Totals, why: string): Span[] => [
    name,
    whole(one.requests),
    whole(one.admitted),
    refusedCell(one.refused),
    percent(one.refused / Math.max(one.requests, 1)),
    ...(dry ? [whole(one.dryRunRefused)] : []),
    whole(one.tokens),
    why,
  ];
  return tableLines(
    columns,
    [...apps.map((one) => row(nameOf(one.app), one, reasons(one))), row(toned("strong", "total"), totals, "")],
    style,
  );
}

function reasons({ codes }: AppOutcome): string {
  return [...codes]
    .sort((a, b) => b[1] - a[1])
    .map(([code, count]) => `${code} ${whole(count)}`)
    .join(", ");
}

function comparisonLines(before: AppOutcome[], after: AppOutcome[], style: Style): Line[] {
  const columns: Column[] = [
    { title: "app" },
    { title: "requests", right: true },
    { title: "A admitted", right: true, spare: 1 },
    { title: "A refused", right: true },
    { title: "share", right: true, spare: 2 },
    { title: "B admitted", right: true, spare: 1 },
    { title: "B refused", right: true },
    { title: "share", right: true, spare: 2 },
    { title: "change", right: true },
  ];
  const share = ({ refused, requests }: Totals) => percent(refused / Math.max(requests, 1));
  const row = (name: Span, a: Totals, b: Totals): Span[] => [
    name,
    whole(Math.max(a.requests, b.requests)),
    whole(a.admitted),
    refusedCell(a.refused),
    share(a),
    whole(b.admitted),
    refusedCell(b.refused),
    share(b),
    change(b.refused - a.refused),
  ];
  const none: Totals = { requests: 0, admitted: 0, refused: 0, dryRunRefused: 0, tokens: 0 };
  const names = [...new Set([...before, ...after].map(({ app }) => app))].sort();
  const rows = names.map((name) =>
    row(nameOf(name), before.find(({ app }) => app === name) ?? none, after.find(({ app }) => app === name) ?? none),
  );
  return tableLines(columns, [...rows, row(toned("strong", "total"), totalsOf(before), totalsOf(after))], style);
}

function change(more: number): Span {
  if (more === 0) return "0";
  return more > 0 ? toned("bad", `+${whole(more)}`) : toned("good", `-${whole(-more)}`);
}

/** For apps with refusals: a chart, the first and last refusal, and the worst second and minute. */
function whenLines(outcome: Replay["outcomes"][number], config: string | undefined): Line[] {
  const short = outcome.apps.filter(({ firstRefused }) => firstRefused !== undefined);
  if (short.length === 0) return [[], [`${config === undefined ? "" : `${config}: `}No refusals.`]];
  const { startMs, stepMs } = outcome.timeline;
  const lines: Line[] = [
    [],
    [
      toned("strong", config === undefined ? "When" : `When, with ${config}`),
      toned("faint", `  each bar is ${span(stepMs / 1000)}; its height is the share of refused requests`),
    ],
  ];
  const steps = Math.max(...outcome.apps.map((one) => one.series.requests.findLastIndex((count) => count > 0))) + 1;
  for (const one of short) {
    lines.push([`${nameOf(one.app)}  `, toned("bad", bars(one, steps))]);
    const { firstRefused = startMs, lastRefused = startMs } = one;
    lines.push([`  first ${dateTime(firstRefused)}, last ${dateTime(lastRefused)}`]);
    lines.push([`  worst second ${worst(one.worstSecond, 19)}; worst minute ${worst(one.worstMinute, 16)}`]);
  }
  return lines;
}

function bars({ series: { requests, refused } }: AppOutcome, steps: number): string {
  return [...requests.subarray(0, steps)]
    .map((count, i) => {
      const part = count === 0 ? 0 : refused[i]! / count;
      return part === 0 ? (count === 0 ? " " : "·") : BARS[Math.min(Math.floor(part * BARS.length), BARS.length - 1)];
    })
    .join("");
}

function worst(one: Worst | undefined, length: number): string {
  if (one === undefined) return "-";
  return `${dateTime(one.at).slice(0, length)}: ${whole(one.refused)} of ${whole(one.requests)}`;
}

function dateTime(ms: number): string {
  return new Date(ms).toISOString().slice(0, 19).replace("T", " ");
}

/** The result for --json. */
export function reportData({ replay, configs, nodes }: Report) {
  const iso = (ms: number | undefined) => (ms === undefined ? null : new Date(ms).toISOString());
  const worstData = (one: Worst | undefined) =>
    one === undefined ? null : { at: iso(one.at), requests: one.requests, refused: one.refused };
  return {
    log: {
      format: replay.format ?? null,
      lines: replay.lines,
      requests: replay.requests,
      bad_lines: replay.badLines,
      bad_examples: replay.examples,
      late: replay.late,
      first: iso(replay.firstMs),
      last: iso(replay.lastMs),
    },
    nodes,
    runs: replay.outcomes.map(({ apps, timeline }, i) => {
      const { dryRunRefused, ...totals } = totalsOf(apps);
      return {
        config: configs[i],
        totals: { ...totals, dry_run_refused: dryRunRefused },
        timeline: { start: iso(timeline.startMs), step_seconds: timeline.stepMs / 1000 },
        apps: apps.map((one) => ({
          app: one.app,
          requests: one.requests,
          admitted: one.admitted,
          refused: one.refused,
          dry_run_refused: one.dryRunRefused,
          tokens: one.tokens,
          codes: Object.fromEntries(one.codes),
          first_refused: iso(one.firstRefused),
          last_refused: iso(one.lastRefused),
          worst_second: worstData(one.worstSecond),
          worst_minute: worstData(one.worstMinute),
          timeline: { requests: [...one.series.requests], refused: [...one.series.refused] },
        })),
      };
    }),
  };
}
