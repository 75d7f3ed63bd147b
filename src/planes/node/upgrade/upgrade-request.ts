/** Decides which requests are upgraded. The others stay HTTP requests or are rejected. */
import { IncomingMessage } from "node:http";
import { clientNetwork, forwardedAddress } from "../../../core/address.js";
import type { GatewayError } from "../../../core/refusals.js";
import type { AddressMatcher } from "../../../shared/addresses.js";
import type { Connection } from "../http/client-connections.js";
import type { ClientRequest } from "../http/client-messages.js";
import type { RequestHead } from "../http/request-head.js";
import type { ConnectionRules } from "../options.js";

/** An upgrade that its route accepts. */
export interface WantedUpgrade {
  rules: ConnectionRules;
  /** Protocols to offer to the backend, as the client wrote them. */
  protocols: string[];
}

/** An error if the request cannot be served; undefined if the Upgrade header can be ignored. */
export function judgeUpgrade(
  request: ClientRequest,
  head: RequestHead,
  rules: ConnectionRules | undefined,
): WantedUpgrade | GatewayError | undefined {
  const wanted = (request.headers.upgrade ?? "").split(",").map((token) => token.trim());
  const protocols = wanted.filter((token) => !isHttp2(token) && isAllowed(token, rules));
  // A server may ignore an upgrade to HTTP/2.
  if (rules === undefined || protocols.length === 0) return wanted.every(isHttp2) ? undefined : "unsupported_upgrade";
  if (head.contentLength !== 0) return "malformed_request";
  return request.method === "HEAD" ? "unsupported_upgrade" : { rules, protocols };
}

function isHttp2(token: string): boolean {
  return /^h2c?$/i.test(token);
}

/** A protocol may be listed without its version: `name` for `name/1`. */
function isAllowed(token: string, rules: ConnectionRules | undefined): boolean {
  const lower = token.toLowerCase();
  return rules !== undefined && (rules.protocols.has(lower) || rules.protocols.has(lower.replace(/\/.*/, "")));
}

/**
 * The client as its connections are counted: behind trusted hops, as they name it. Empty if it is unknown, because a trusted hop
 * does not name it.
 */
export function clientOf(
  { trusted, remoteAddress }: Pick<Connection, "trusted" | "remoteAddress">,
  forwardedFor: string,
  isTrusted: AddressMatcher,
): string {
  if (!trusted) return clientNetwork(remoteAddress);
  return forwardedFor === "" ? "" : clientNetwork(forwardedAddress(forwardedFor, isTrusted));
}

/**
 * Node detaches the socket of every request with `upgrade`, and then no HTTP response can be sent. This class makes
 * `upgrade` depend on `isTaken`, which is called once after the head was read.
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
