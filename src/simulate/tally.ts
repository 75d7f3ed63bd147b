/** Counts the decisions of each app by outcome, code and time. */
import { OK } from "../core/codes.js";
import type { Decision } from "../limiter/decision.js";
import { createTimeline, type Series, type Timeline } from "./timeline.js";

/** The second or minute with most refusals. */
export interface Worst {
  /** Its start, in milliseconds since 1970. */
  at: number;
  requests: number;
  refused: number;
}

export interface AppTally {
  app: string;
  requests: number;
  admitted: number;
  refused: number;
  /** Admitted only because of dry run; included in `admitted`. */
  dryRunRefused: number;
  /** Refusals by code, including those of a dry run. */
  codes: Map<string, number>;
  /** Milliseconds since 1970; undefined if nothing was refused. */
  firstRefused: number | undefined;
  lastRefused: number | undefined;
  worstSecond: Worst | undefined;
  worstMinute: Worst | undefined;
  series: Series;
}

export interface Tally {
  count(at: number, decision: Pick<Decision, "allowed" | "code" | "app">): void;
  /** Sorted by name. */
  apps(): AppTally[];
  timeline: Timeline;
}

interface Window {
  lengthMs: number;
  current: Worst;
  worst: Worst | undefined;
}

interface Counting extends AppTally {
  second: Window;
  minute: Window;
}

const SECOND_MS = 1000;
const MINUTE_MS = 60_000;

export function createTally(startMs: number): Tally {
  const timeline = createTimeline(startMs);
  const apps = new Map<string, Counting>();

  function begin(app: string): Counting {
    const window = (lengthMs: number): Window => ({
      lengthMs,
      current: { at: Number.NEGATIVE_INFINITY, requests: 0, refused: 0 },
      worst: undefined,
    });
    const counting: Counting = {
      app,
      requests: 0,
      admitted: 0,
      refused: 0,
      dryRunRefused: 0,
      codes: new Map<string, number>(),
      firstRefused: undefined,
      lastRefused: undefined,
      worstSecond: undefined,
      worstMinute: undefined,
      series: timeline.series(),
      second: window(SECOND_MS),
      minute: window(MINUTE_MS),
    };
    apps.set(app, counting);
    return counting;
  }

  return {
    timeline,
    count(at, { allowed, code, app }) {
      const one = apps.get(app) ?? begin(app);
      const step = timeline.stepAt(at);
      const refused = code === OK ? 0 : 1;
      one.requests++;
      if (allowed) one.admitted++;
      else one.refused++;
      one.series.requests[step]!++;
      countIn(one.second, at, refused);
      countIn(one.minute, at, refused);
      if (refused === 0) return;
      if (allowed) one.dryRunRefused++;
      one.series.refused[step]!++;
      one.codes.set(code, (one.codes.get(code) ?? 0) + 1);
      one.firstRefused ??= at;
      one.lastRefused = at;
    },
    apps: () =>
      [...apps.values()]
        .map(({ second, minute, ...tally }) => ({
          ...tally,
          worstSecond: worstOf(second),
          worstMinute: worstOf(minute),
        }))
        .sort((a, b) => (a.app < b.app ? -1 : 1)),
  };
}

/** Requests arrive in order, so only one window is open at a time. */
function countIn(window: Window, at: number, refused: number): void {
  const begin = at - (at % window.lengthMs);
  if (begin !== window.current.at) {
    window.worst = worstOf(window);
    window.current = { at: begin, requests: 0, refused: 0 };
  }
  window.current.requests++;
  window.current.refused += refused;
}

function worstOf({ current, worst }: Window): Worst | undefined {
  return current.refused > (worst?.refused ?? 0) ? current : worst;
}
