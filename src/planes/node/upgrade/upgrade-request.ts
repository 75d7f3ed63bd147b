/** Which requests leave HTTP: only those that a route takes. Any other wish for a protocol stays a request. */
import { IncomingMessage } from "node:http";
import type { GatewayError } from "../../../core/refusals.js";
import type { RequestHead } from "../http/request-head.js";
import type { ConnectionRules } from "../settings.js";

/**
 * The protocols that may be offered to the backend, in the client's words; or the reason why the request cannot be
 * served; or undefined where the wish is one that may be passed over.
 */
export function judgeUpgrade(
  request: IncomingMessage,
  head: RequestHead,
  rules: ConnectionRules | undefined,
): string[] | GatewayError | undefined {
  const wanted = (request.headers.upgrade ?? "").split(",").map((token) => token.trim());
  const offered = wanted.filter((token) => !isHttp2(token) && isAllowed(token, rules));
  // Asking for HTTP/2 is an offer that can be passed over; asking for WebSocket is not.
  if (offered.length === 0) return wanted.every(isHttp2) ? undefined : "unsupported_upgrade";
  if (head.contentLength !== 0) return "malformed_request";
  return request.method === "HEAD" ? "unsupported_upgrade" : offered;
}

function isHttp2(token: string): boolean {
  return /^h2c?$/i.test(token);
}

/** A version, as in `name/1`, need not be listed. */
function isAllowed(token: string, rules: ConnectionRules | undefined): boolean {
  const lower = token.toLowerCase();
  return rules !== undefined && (rules.protocols.has(lower) || rules.protocols.has(lower.replace(/\/.*/, "")));
}

/**
 * Node hands every connection over on which another protocol is asked for, and then nothing of HTTP is left to answer
 * with. It looks at `upgrade` to know: here that is a question, asked once, after the head was read.
 */
export function requestClass(isTaken: (request: IncomingMessage) => boolean): typeof IncomingMessage {
  return class Request extends IncomingMessage {
    private asksForUpgrade = false;
    private taken: boolean | undefined;

    get upgrade(): boolean {
      if (!this.asksForUpgrade) return false;
      this.taken ??= this.method === "CONNECT" || isTaken(this);
      return this.taken;
    }

    set upgrade(value: boolean | null) {
      this.asksForUpgrade = value === true;
    }
  };
}
