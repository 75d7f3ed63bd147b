/** Runs work that no caller waits for, such as timers and reports, so that its errors do not end the process. */

export const backgroundTasks = ["timer", "message", "report", "rejection"] as const;
export type BackgroundTask = (typeof backgroundTasks)[number];

type ErrorHandler = (task: BackgroundTask, error: unknown) => void;

/** Without one, errors end the process, as usual in Node. The npm library sets none. */
let handler: ErrorHandler | undefined;

/** Called once when a process of the service starts. Then the process also survives rejections that nobody handles. */
export function surviveErrors(report: ErrorHandler): void {
  if (handler === undefined) process.on("unhandledRejection", (error) => failed("rejection", error));
  handler = report;
}

function failed(task: BackgroundTask, error: unknown): void {
  try {
    handler?.(task, error);
  } catch {
    // The log cannot be written either, so the error is lost.
  }
}

/** Calls `work`. Returns false if it failed. */
export function runInBackground(task: BackgroundTask, work: () => void): boolean {
  if (handler === undefined) {
    work();
    return true;
  }
  try {
    work();
    return true;
  } catch (error) {
    failed(task, error);
    return false;
  }
}

/** Calls `work` at an interval, also after it has failed; returns a function that stops it. Does not keep the process alive. */
export function every(ms: number, work: () => void): () => void {
  const timer = setInterval(() => runInBackground("timer", work), ms);
  timer.unref();
  return () => clearInterval(timer);
}
