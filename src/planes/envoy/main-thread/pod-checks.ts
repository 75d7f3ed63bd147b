/** Whether a pod can be reached, asked before Envoy connects to it: Envoy cannot send an upgrade to another pod afterwards. */
import { nowMs } from "../../lua/host.js";
import { coroutine, lib, state, type Thread } from "../module-api.js";
import { envoy } from "../module-state.js";
import { continueTask, sleepMs } from "./tasks.js";

// As in dial.c.
const PENDING = 0;
const UNREACHED = 2;
/** This machine cannot tell. */
const UNKNOWN = 3;
/** Results of `tollgate_dial` that are not a connection. */
const FAILED_AT_ONCE = -2;
/** Only in this file. */
const TIMED_OUT = 4;

/** One connection tells it for all upgrades that ask meanwhile. */
interface Check {
  dialed: number;
  outcome: number;
  /** Tasks of the other upgrades. */
  waiting: Thread[];
}

const checks: { running: { [pod: string]: Check | undefined }; pods: string[] } = { running: {}, pods: [] };

/** Longest time between two looks, and the part of the time that has passed. */
const LONGEST_LOOK_MS = 20;
const LOOK_PART = 4;

/** Empty if the pod can be reached, or else the error for the client. Only in a task. */
export function podProblem(pod: string): "" | "upstream_unreachable" | "upstream_connect_timeout" {
  const running = checks.running[pod];
  let outcome: number;
  if (running === undefined) outcome = check(pod);
  else {
    running.waiting.push(coroutine.running());
    coroutine.yield();
    outcome = running.outcome;
  }
  if (outcome === TIMED_OUT) return "upstream_connect_timeout";
  return outcome === UNREACHED ? "upstream_unreachable" : "";
}

function check(pod: string): number {
  const dialed = lib.tollgate_dial(state, pod, pod.length);
  if (dialed < 0) return dialed === FAILED_AT_ONCE ? UNREACHED : UNKNOWN;
  const one: Check = { dialed, outcome: lib.tollgate_dialed(state, dialed), waiting: [] };
  const begun = nowMs();
  if (one.outcome === PENDING) {
    checks.running[pod] = one;
    checks.pods.push(pod);
  }
  while (one.outcome === PENDING) {
    const elapsed = nowMs() - begun;
    sleepMs(Math.min(Math.max(elapsed / LOOK_PART, 1), LONGEST_LOOK_MS));
    one.outcome = lib.tollgate_dialed(state, dialed);
    if (one.outcome === PENDING && nowMs() - begun >= envoy.options.connectMs) one.outcome = TIMED_OUT;
  }
  lib.tollgate_hang_up(state, dialed);
  if (checks.running[pod] === one) forget(pod);
  for (const task of one.waiting) continueTask(task);
  return one.outcome;
}

function forget(pod: string): void {
  checks.running[pod] = undefined;
  const others: string[] = [];
  for (const other of checks.pods) if (other !== pod) others.push(other);
  checks.pods = others;
}

/** Another main thread replaces this one, so nobody waits for the results. */
export function endChecks(): void {
  for (const pod of checks.pods) lib.tollgate_hang_up(state, checks.running[pod]!.dialed);
  checks.running = {};
  checks.pods = [];
}
