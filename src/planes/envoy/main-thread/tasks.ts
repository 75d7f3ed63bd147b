/** Tasks and timers of the main thread. A task is a coroutine: it may sleep and call services. */
import { systemNowMs } from "../../lua/system-clock.js";
import { coroutine, lib, logError, state, type Thread } from "../module-api.js";

interface Timer {
  at: number;
  work: (this: void) => void;
}

/** `due`: when the main thread wanted to be woken; 0: it was. `late`: milliseconds by which it was late, in total. */
const timers: { list: Timer[]; due: number; late: number } = { list: [], due: 0, late: 0 };

/** Runs a task after so many milliseconds. */
export function after(milliseconds: number, work: (this: void) => void): void {
  timers.list.push({ at: systemNowMs() + milliseconds, work });
}

/** Milliseconds by which the main thread was late until now: it also does the work of Envoy, and loads scripts. */
export function lateMs(): number {
  const late = timers.due === 0 ? 0 : Math.max(systemNowMs() - timers.due, 0);
  return timers.late + late;
}

/** Runs the tasks that are due, and asks to be woken for the next one. */
export function runTimers(): void {
  const { list } = timers;
  timers.late = lateMs();
  timers.due = 0;
  const now = systemNowMs();
  timers.list = [];
  for (const timer of list) {
    // A clock that was set back must not delay a task for long.
    if (timer.at <= now || timer.at > now + LONGEST_MS) start(timer.work);
    else timers.list.push(timer);
  }
  let next = LONGEST_MS;
  const then = systemNowMs();
  for (const { at } of timers.list) next = Math.min(next, Math.max(at - then, 0));
  timers.due = then + next;
  lib.tollgate_alarm(state, next);
}

const LONGEST_MS = 60000;

export function start(work: (this: void) => void): void {
  continueTask(coroutine.create(work));
}

export function continueTask(task: Thread): void {
  const [fine, problem] = coroutine.resume(task);
  if (!fine) logError(`tollgate: ${problem ?? ""}`);
}

/** Only in a task. */
export function sleepMs(milliseconds: number): void {
  const task = coroutine.running();
  after(milliseconds, () => continueTask(task));
  coroutine.yield();
}

/** Runs one task for each, and returns when all have ended. Only in a task. */
export function runAll<T>(this: void, work: (this: void, given: T) => void, given: readonly T[]): void {
  const task = coroutine.running();
  const run = { left: given.length, waits: false };
  for (const one of given) {
    start(() => {
      work(one);
      run.left = run.left - 1;
      if (run.left === 0 && run.waits) continueTask(task);
    });
  }
  if (run.left === 0) return;
  run.waits = true;
  coroutine.yield();
}
