/**
 * Measures how long a reply takes, without the delay of this process. While the event loop is late, a reply may have arrived
 * and not been read yet: only the time until the loop last looked for input and found nothing is certain.
 */

export interface ReplyTimer {
  /** Milliseconds for which the reply is certainly missing: the event loop has looked for it since. */
  missingMs(): number;
  /** Ends the measurement. Returns the milliseconds that the reply took, delays of the event loop excluded. */
  end(): number;
}

/** How often the loop is asked to look for input while a reply is due. */
const SAMPLE_MS = 5;
/** An event loop that is on time has looked for input within this time. */
const SLACK_MS = SAMPLE_MS + 2;

interface Waiting {
  started: number;
  /** When the call had certainly been written; undefined until then. */
  sentAt: number | undefined;
}

const waiting = new Set<Waiting>();
/** Calls that may not have been written yet: they are at the end of this turn of the loop. */
let unsent: Waiting[] = [];
/** When the loop last looked for input and had handled what it found by its next phase. */
let lookedAt = 0;
let isSampling = false;

export function startReplyTimer(): ReplyTimer {
  const one: Waiting = { started: performance.now(), sentAt: undefined };
  waiting.add(one);
  if (unsent.push(one) === 1) setImmediate(markSent);
  startSampling();
  const missingMs = () => (one.sentAt === undefined ? 0 : Math.max(lookedAt - one.sentAt, 0));
  return {
    missingMs,
    end() {
      waiting.delete(one);
      const passed = performance.now() - one.started;
      return Math.min(passed, missingMs() + SLACK_MS);
    },
  };
}

function startSampling(): void {
  if (isSampling) return;
  isSampling = true;
  setTimeout(sample, SAMPLE_MS).unref();
}

function markSent(): void {
  const now = performance.now();
  for (const one of unsent) one.sentAt = now;
  unsent = [];
}

/**
 * Timers run before the loop looks for input, immediates after it: in between, all replies that were there are handled. The
 * immediate is not unreferenced: otherwise the loop would wait for input before it runs it.
 */
function sample(): void {
  isSampling = false;
  if (waiting.size === 0) return;
  const now = performance.now();
  setImmediate(() => {
    lookedAt = now;
    if (waiting.size > 0) startSampling();
  });
}

/**
 * Calls `expired` when the reply has been missing for `ms`, not merely when that time has passed: a process that was late
 * looks for the reply first. Returns a function that cancels it.
 */
export function replyDeadline(ms: number, expired: () => void): () => void {
  const timer = startReplyTimer();
  let timeout = setTimeout(check, ms);
  let cancelled = false;

  function check(): void {
    const leftMs = ms - timer.missingMs();
    if (leftMs > 2 * SLACK_MS && ms > 2 * SLACK_MS) timeout = setTimeout(check, leftMs);
    // The reply may have arrived since the loop last looked.
    else setImmediate(end);
  }

  function end(): void {
    if (cancelled) return;
    timer.end();
    expired();
  }

  return () => {
    cancelled = true;
    clearTimeout(timeout);
    timer.end();
  };
}
