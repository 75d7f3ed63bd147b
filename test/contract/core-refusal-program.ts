/** The refusal commands of the conformance program: responses to decisions, refused connections and gateway errors. */

import { joinValues, wholeText } from "../../src/core/platform.js";
import {
  connectionRefusal,
  connectionRetryAfter,
  decisionRefusal,
  type GatewayError,
  gatewayRefusal,
  type Refusal,
} from "../../src/core/refusals.js";
import { headerWriter, limitTexts, resetSeconds, TOKENS } from "../../src/core/response-headers.js";
import { numberAt, textAt } from "./core-text.js";

function refusalText({ status, body, retryAfter }: Refusal): string {
  return `${wholeText(status)} ${wholeText(retryAfter)} ${body}`;
}

function addLine(this: void, lines: string[], name: string, value: string): void {
  lines.push(`${name}: ${value}`);
}

/** `decision code allowed dryRun x ietf app cost remaining limit rate retryAfterMs` */
function decisionCommand(words: string[]): string {
  const decision = {
    code: textAt(words, 1),
    allowed: textAt(words, 2) === "yes",
    dryRun: textAt(words, 3) === "yes",
    app: textAt(words, 6),
    cost: numberAt(words, 7),
    remaining: numberAt(words, 8),
    limit: numberAt(words, 9),
    retryAfterMs: numberAt(words, 11),
  };
  const { app, limit, remaining } = decision;
  const rate = numberAt(words, 10);
  const write = headerWriter({ xRateLimit: textAt(words, 4) === "yes", ietf: textAt(words, 5) === "yes" }, addLine);
  const lines: string[] = [];
  write(lines, decision, limitTexts(app, limit, rate, TOKENS), resetSeconds(limit, remaining, rate));
  return `${joinValues(lines, "; ", 0)} / ${refusalText(decisionRefusal(decision))}`;
}

/** `connection code app retryAfterMs random maxPerPod maxTotal maxPerApp ratePerSecond` */
function connectionCommand(words: string[]): string {
  const code = textAt(words, 1);
  const limits = {
    maxPerPod: numberAt(words, 5),
    maxTotal: numberAt(words, 6),
    maxPerApp: numberAt(words, 7),
    ratePerSecond: numberAt(words, 8),
  };
  const retryAfter = connectionRetryAfter(code, numberAt(words, 3), numberAt(words, 4));
  return refusalText(connectionRefusal({ code, app: textAt(words, 2), limits, retryAfter }));
}

/** Runs a refusal command. The result is empty if the command is not a refusal command. */
export function refusalCommand(words: string[]): string {
  const command = words[0];
  if (command === "decision") return decisionCommand(words);
  if (command === "connection") return connectionCommand(words);
  return command === "gateway-error" ? refusalText(gatewayRefusal(textAt(words, 1) as GatewayError)) : "";
}
