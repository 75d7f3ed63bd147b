/** Asks the service to decide about one request: `app cost` → `allowed code remaining limit retry_after_ms`. */
import { defaultDegradationOptions, observeCall, STORE_OK } from "../../../core/degradation.js";
import { splitText, wholeNumber, wholeText } from "../../../core/platform.js";
import { nowMs } from "../clock.js";
import type { Handle } from "../envoy-api.js";
import { callService } from "../service-calls.js";
import { worker } from "../state.js";
import { noteFailure } from "./syncer.js";

export interface CheckAnswer {
  code: string;
  remaining: number;
  limit: number;
  retryAfterMs: number;
}

/** Undefined where nobody answers. */
export function askService(handle: Handle, app: string, cost: number): CheckAnswer | undefined {
  const started = nowMs();
  const reply = callService(handle, worker.settings.clusters.envoy, "/v1/check", `${app} ${wholeText(cost)}\n`);
  const ended = nowMs();
  const words = reply.status === 200 ? splitText(splitText(reply.body, "\n")[0]!, " ") : [];
  if (words.length < 5) {
    // Too many at once says nothing about the service.
    if (!reply.overloaded) noteFailure(reply, started, ended);
    return undefined;
  }
  observeCall(worker.degradation, defaultDegradationOptions, ended, STORE_OK, ended - started);
  return {
    code: words[1]!,
    remaining: Math.max(wholeNumber(words[2]!), 0),
    limit: Math.max(wholeNumber(words[3]!), 0),
    retryAfterMs: Math.max(wholeNumber(words[4]!), 0),
  };
}
