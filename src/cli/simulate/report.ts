/** The result of `tollgate simulate`, as text and as JSON. */
import type { Replay } from "../../simulate/replay.js";
import type { AppOutcome } from "../../simulate/world.js";
import { counted, percent, span, whole } from "../numbers.js";
import { escaped, tableLines, toned, wrapped } from "../printing.js";

export interface Report {
  replay: Replay;
  /** The configuration files, in the order of the outcomes. */
  configs: string[];
  nodes: number;
}

const BARS = "▁▂▃▄▅▆▇█";
/** Requests without a valid app. */
const NO_APP = "(no app)";
const none = { requests: 0, admitted: 0, refused: 0, dryRunRefused: 0, tokens: 0 };
type Totals = typeof none;

export function reportLines(report: Report, columns: number): string[] {
  const { replay, configs } = report;
  const [first, second] = replay.outcomes;
  const lines = headLines(report, columns);
  if (first === undefined) return lines;
  if (second === undefined) {
    return [...lines, "", ...outcomeLines(first.apps, columns), ...limitLines(first, columns), ...whenLines(first)];
  }
  const when = replay.outcomes.flatMap((outcome, i) => [
    ...limitLines(outcome, columns, configs[i]),
    ...whenLines(outcome, configs[i]),
  ]);
  return [...lines, "", ...comparisonLines(first.apps, second.apps, columns), ...when];
}

function headLines({ replay, configs, nodes }: Report, columns: number): string[] {
  const { requests, firstMs = 0, lastMs = 0, badLines, lines, late, format, examples } = replay;
  if (requests === 0)
    return [lines === 0 ? "The log is empty." : `The log has ${counted(lines, "line")} and no request.`];
  const time = `${span((lastMs - firstMs) / 1000)}, from ${dateTime(firstMs)} to ${dateTime(lastMs)} UTC`;
  const head = [
    `${toned("strong", counted(requests, "request"))} in ${time}`,
    `${counted(nodes, "node")}, log format ${format}`,
  ];
  if (configs.length > 1) head.push(escaped(`A is ${configs[0]}, B is ${configs[1]}`));
  if (late > 0) {
    const text = `Further out of order than --tolerance allows: ${counted(late, "line")}, counted at a later time.`;
    head.push(...wrapped(text, columns));
  }
  if (badLines > 0) {
    const share = percent(badLines / Math.max(lines, 1));
    head.push(`${toned("warning", `${counted(badLines, "line")} could not be read`)} (${share}). The first ones:`);
    head.push(
      ...examples.map(({ line, reason, text }) => `  line ${line}: ${reason}: ${toned("faint", escaped(text))}`),
    );
  }
  return head;
}

function totalsOf(apps: AppOutcome[]): Totals {
  const totals = { ...none };
  for (const name of Object.keys(none) as (keyof Totals)[]) for (const app of apps) totals[name] += app[name];
  return totals;
}

const nameOf = (app: string) => (app === "" ? NO_APP : app);
const refusedCell = ({ refused }: Totals) => (refused > 0 ? toned("bad", whole(refused)) : whole(refused));
const shareCell = ({ refused, requests }: Totals) => percent(refused / Math.max(requests, 1));

function outcomeLines(apps: AppOutcome[], columns: number): string[] {
  const totals = totalsOf(apps);
  const hasDryRun = totals.dryRunRefused > 0;
  const dryRun = hasDryRun ? [">would refuse"] : [];
  const titles = ["app", ">requests", ">admitted", ">refused", ">share", ...dryRun, ">tokens", "why"];
  const row = (name: string, one: Totals, why: string) => [
    name,
    whole(one.requests),
    whole(one.admitted),
    refusedCell(one),
    shareCell(one),
    ...(hasDryRun ? [whole(one.dryRunRefused)] : []),
    whole(one.tokens),
    why,
  ];
  const rows = apps.map((one) => row(nameOf(one.app), one, reasons(one)));
  return tableLines(titles, [...rows, row(toned("strong", "total"), totals, "")], columns, {
    spare: ["why", "tokens"],
  });
}

function reasons({ codes }: AppOutcome): string {
  const sorted = [...codes].sort((a, b) => b[1] - a[1]);
  return sorted.map(([code, count]) => `${code} ${whole(count)}`).join(", ");
}

function comparisonLines(before: AppOutcome[], after: AppOutcome[], columns: number): string[] {
  const run = (name: string) => [`>${name} admitted`, `>${name} refused`, ">share"];
  const titles = ["app", ">requests", ...run("A"), ...run("B"), ">change"];
  const cells = (one: Totals) => [whole(one.admitted), refusedCell(one), shareCell(one)];
  const row = (name: string, a: Totals = none, b: Totals = none) => [
    name,
    whole(Math.max(a.requests, b.requests)),
    ...cells(a),
    ...cells(b),
    change(b.refused - a.refused),
  ];
  const names = [...new Set([...before, ...after].map(({ app }) => app))].sort();
  const rows = names.map((name) => {
    const named = (apps: AppOutcome[]) => apps.find(({ app }) => app === name);
    return row(nameOf(name), named(before), named(after));
  });
  rows.push(row(toned("strong", "total"), totalsOf(before), totalsOf(after)));
  return tableLines(titles, rows, columns, { spare: ["share", "A admitted", "B admitted"] });
}

/** The limits that applied to requests. */
function limitLines({ limits }: Replay["outcomes"][number], columns: number, config?: string): string[] {
  if (limits.length === 0) return [];
  const rows = limits.map(({ limit, requests, refused }) => [
    limit,
    whole(requests),
    refused > 0 ? toned("bad", whole(refused)) : whole(refused),
    percent(refused / Math.max(requests, 1)),
  ]);
  const name = config === undefined ? "limit" : `limit, with ${escaped(config)}`;
  return ["", ...tableLines([name, ">requests", ">refused", ">share"], rows, columns, { spare: [] })];
}

function change(more: number): string {
  if (more === 0) return "0";
  return more > 0 ? toned("bad", `+${whole(more)}`) : toned("good", `-${whole(-more)}`);
}

/** For apps with refusals: a chart, the first and last refusal, and the worst second and minute. */
function whenLines({ apps, timeline }: Replay["outcomes"][number], config?: string): string[] {
  const short = apps.filter(({ firstRefused }) => firstRefused !== undefined);
  const name = config === undefined ? "" : escaped(config);
  if (short.length === 0) return ["", `${name === "" ? "" : `${name}: `}No refusals.`];
  const legend = `each bar is ${span(timeline.stepMs / 1000)}; its height is the share of refused requests`;
  const steps = Math.max(...apps.map((one) => one.series.requests.findLastIndex((count) => count > 0))) + 1;
  return [
    "",
    `${toned("strong", name === "" ? "When" : `When, with ${name}`)}${toned("faint", `  ${legend}`)}`,
    ...short.flatMap((one) => [
      `${nameOf(one.app)}  ${toned("bad", bars(one, steps))}`,
      `  first ${dateTime(one.firstRefused!)}, last ${dateTime(one.lastRefused!)}`,
      `  worst second ${worst(one.second, 19)}; worst minute ${worst(one.minute, 16)}`,
    ]),
  ];
}

function bars({ series: { requests, refused } }: AppOutcome, steps: number): string {
  const shown = Array.from(requests.subarray(0, steps), (count, i) => {
    if (refused[i] === 0) return count === 0 ? " " : "·";
    return BARS[Math.min(Math.floor((refused[i]! / count) * BARS.length), BARS.length - 1)];
  });
  return shown.join("");
}

function worst({ worst: one }: AppOutcome["second"], length: number): string {
  return `${dateTime(one!.at).slice(0, length)}: ${whole(one!.refused)} of ${whole(one!.requests)}`;
}

function dateTime(ms: number): string {
  return new Date(ms).toISOString().slice(0, 19).replace("T", " ");
}

/** The result for --json. */
export function reportData({ replay, configs, nodes }: Report) {
  const iso = (ms: number | undefined) => (ms === undefined ? null : new Date(ms).toISOString());
  const worstData = ({ worst: one }: AppOutcome["second"]) => (one === undefined ? null : { ...one, at: iso(one.at) });
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
    runs: replay.outcomes.map(({ apps, limits, timeline }, i) => {
      const { dryRunRefused, ...totals } = totalsOf(apps);
      return {
        config: configs[i],
        totals: { ...totals, dry_run_refused: dryRunRefused },
        timeline: { start: iso(timeline.startMs), step_seconds: timeline.stepMs / 1000 },
        limits,
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
          worst_second: worstData(one.second),
          worst_minute: worstData(one.minute),
          timeline: { requests: [...one.series.requests], refused: [...one.series.refused] },
        })),
      };
    }),
  };
}
