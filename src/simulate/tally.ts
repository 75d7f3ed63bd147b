/** Counts the decisions of each app by outcome, code and time. */
import { OK } from "../core/codes.js";
import type { Decision } from "../limiter/limiter.js";

const SECOND_MS = 1000;
const MINUTE_MS = 60_000;
/** Of a timeline. */
export const STEPS = 60;

export interface Series {
  requests: Uint32Array;
  refused: Uint32Array;
}

/** Counts over time in a fixed number of steps. A step is one second at first and doubles when the steps run out. */
export function createTimeline(startMs: number) {
  const all: Series[] = [];
  let stepMs = SECOND_MS;

  function halve(counts: Uint32Array): void {
    for (let i = 0; i < STEPS; i++) counts[i] = i < STEPS / 2 ? counts[2 * i]! + counts[2 * i + 1]! : 0;
  }

  return {
    startMs,
    stepMs: () => stepMs,
    series(): Series {
      const series = { requests: new Uint32Array(STEPS), refused: new Uint32Array(STEPS) };
      all.push(series);
      return series;
    },
    /** The step of a time. Times before the start belong to the first step. */
    stepAt(ms: number): number {
      const passed = Math.max(ms - startMs, 0);
      while (passed >= stepMs * STEPS) {
        stepMs *= 2;
        for (const { requests, refused } of all) {
          halve(requests);
          halve(refused);
        }
      }
      return Math.floor(passed / stepMs);
    },
  };
}

/** The requests of a second or minute. */
export interface Worst {
  /** Its start, in milliseconds since 1970. */
  at: number;
  requests: number;
  refused: number;
}

function newTally(app: string, series: Series) {
  return {
    app,
    requests: 0,
    admitted: 0,
    refused: 0,
    /** Admitted only because of dry run; included in `admitted`. */
    dryRunRefused: 0,
    /** Refused by the limit of the app itself, including dry runs. */
    ownRefused: 0,
    /** Refusals by code, including dry runs. */
    codes: new Map<string, number>(),
    /** Milliseconds since 1970; undefined if nothing was refused. */
    firstRefused: undefined as number | undefined,
    lastRefused: undefined as number | undefined,
    second: newWindow(SECOND_MS),
    minute: newWindow(MINUTE_MS),
    series,
  };
}

export type AppTally = ReturnType<typeof newTally>;

/** Finds the second or minute with most refusals. */
export interface Window {
  lengthMs: number;
  current: Worst;
  /** Undefined if nothing was refused. */
  worst: Worst | undefined;
}

function newWindow(lengthMs: number): Window {
  return { lengthMs, current: { at: Number.NEGATIVE_INFINITY, requests: 0, refused: 0 }, worst: undefined };
}

/** Requests arrive in order, so only one window is open at a time. */
function countIn(window: Window, at: number, refused: number): void {
  const begin = at - (at % window.lengthMs);
  if (begin !== window.current.at) window.current = { at: begin, requests: 0, refused: 0 };
  window.current.requests++;
  window.current.refused += refused;
  if (window.current.refused > (window.worst?.refused ?? 0)) window.worst = window.current;
}

/** The requests that a limit applied to, and the ones that it refused, including dry runs. */
export interface LimitTally {
  limit: string;
  requests: number;
  refused: number;
}

export function createTally(startMs: number) {
  const timeline = createTimeline(startMs);
  const apps = new Map<string, AppTally>();
  const limits = new Map<string, LimitTally>();

  return {
    timeline,
    count(
      at: number,
      {
        allowed,
        code,
        app,
        limits: of = [],
        appCode = code,
      }: Pick<Decision, "allowed" | "code" | "app" | "limits" | "appCode">,
    ): void {
      for (const { name, code: own } of of) {
        const counts = limits.get(name) ?? { limit: name, requests: 0, refused: 0 };
        limits.set(name, counts);
        counts.requests++;
        if (own !== OK) counts.refused++;
      }
      let one = apps.get(app);
      if (one === undefined) {
        one = newTally(app, timeline.series());
        apps.set(app, one);
      }
      const step = timeline.stepAt(at);
      const refused = code === OK ? 0 : 1;
      one.requests++;
      if (appCode !== OK) one.ownRefused++;
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
    /** In the order of their first request. */
    limits: () => [...limits.values()],
    /** Sorted by name. */
    apps: () => [...apps.values()].sort((a, b) => (a.app < b.app ? -1 : 1)),
  };
}
