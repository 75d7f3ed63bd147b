/** Asks the service to decide about one request: `app cost` → `allowed code remaining limit retry_after_ms`. */

import { STORE_ERROR, STORE_OK, STORE_TIMEOUT } from "../../../core/degradation.js";
import { splitText, wholeNumber, wholeText } from "../../../core/platform.js";
import type { RemoteDecision } from "../../../engine/decide.js";
import { callEnded } from "../../../engine/node.js";
import { nowMs } from "../clock.js";
import type { Handle } from "../envoy-api.js";
import { callService } from "../service-calls.js";
import { worker } from "../state.js";

/** Undefined if no service replies. */
export function askService(handle: Handle, app: string, cost: number): RemoteDecision | undefined {
  const started = nowMs();
  const reply = callService(handle, worker.options.clusters.envoy, "/v1/check", `${app} ${wholeText(cost)}\n`);
  const ended = nowMs();
  const words = reply.status === 200 ? splitText(splitText(reply.body, "\n")[0]!, " ") : [];
  if (words.length < 5) {
    // Too many calls of this Envoy at once say nothing about the service.
    if (!reply.overloaded) callEnded(worker.node, reply.timedOut ? STORE_TIMEOUT : STORE_ERROR, started, ended);
    return undefined;
  }
  callEnded(worker.node, STORE_OK, started, ended);
  return {
    code: words[1]!,
    remaining: Math.max(wholeNumber(words[2]!), 0),
    limit: Math.max(wholeNumber(words[3]!), 0),
    retryAfterMs: Math.max(wholeNumber(words[4]!), 0),
  };
}
