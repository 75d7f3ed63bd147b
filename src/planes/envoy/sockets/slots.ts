/** A slot as the service gives it, in the text form of its connection API. The call may be repeated. */

import { splitText, storedNumber, wholeText } from "../../../core/platform.js";
import { luaTable } from "../../lua/library.js";
import { ABSENT, ANSWERED, MISFIT, type SlotAnswer } from "../../lua/slot-answer.js";
import type { Handle } from "../envoy-api.js";
import { callService } from "../service-calls.js";
import { worker } from "../state.js";
import { sockets } from "./state.js";

export function acquireSlot(
  handle: Handle,
  connection: string,
  app: string,
  route: string,
  pods: string[],
): SlotAnswer {
  const words = [sockets.proxy, connection, app, route, "0", sockets.memory];
  const message = `${luaTable.concat(words, " ")}\n${luaTable.concat(pods, "\n")}\n`;
  const { status, body } = callService(handle, worker.settings.clusters.control, "/v1/connections/acquire", message);
  const parts = splitText(splitText(body, "\n")[0]!, " ");
  if (status === 200 && parts.length >= 7) {
    return {
      outcome: ANSWERED,
      allowed: parts[0] === "1",
      code: parts[2]!,
      pod: parts[3]!,
      retryAfterSeconds: storedNumber(parts[4]!, 0),
      memory: parts[6]!,
    };
  }
  // 503 is the store's absence, which the service tells of itself; the others are somebody's mistake.
  if (status !== 503 && status !== 504) handle.logErr(`tollgate: no slot was given: ${wholeText(status)} ${body}`);
  const outcome = status === 400 || status === 404 ? MISFIT : ABSENT;
  return { outcome, allowed: false, code: "", pod: "", retryAfterSeconds: 0, memory: "0" };
}
