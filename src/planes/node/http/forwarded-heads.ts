/** Headers of the forwarded request and response: hop-by-hop headers are removed, this hop's are added. */
import { INVALID_COST, reportedCost } from "../../../core/cost.js";
import type { Connection } from "./client-connections.js";
import { kindOf, namedByConnection, withoutNamed } from "./header-kinds.js";
import type { RequestHead } from "./request-head.js";

const VIA = "1.1 tollgate";

/** The headers for the backend. Without Host if undici is to send the target's name. */
export function requestHeaders(
  head: RequestHead,
  client: Connection,
  passHost: boolean,
  identity: readonly string[] = [],
): string[] {
  const { headers, host, forwardedFor, forwardedProto, forwardedHost } = head;
  for (const part of identity) headers.push(part);
  if (passHost && host !== "") headers.push("host", host);
  headers.push(
    "x-forwarded-for",
    forwardedFor === "" ? client.remoteAddress : `${forwardedFor}, ${client.remoteAddress}`,
    "x-forwarded-proto",
    forwardedProto === "" ? client.protocol : forwardedProto,
  );
  const shownHost = forwardedHost === "" ? host : forwardedHost;
  if (shownHost !== "") headers.push("x-forwarded-host", shownHost);
  headers.push("via", client.version === "1.1" ? VIA : `${client.version} tollgate`);
  return headers;
}

export interface ResponseHeadOptions {
  /** The client accepts trailers: their announcement is passed on. */
  trailers: boolean;
  /** The connection is closed after the response. */
  close: boolean;
  /** Header with the cost, in lower case. Clients do not get it. */
  costHeader?: string | undefined;
}

/**
 * The head for the client; `contentLength` is undefined if it is not declared, and `cost` is what the backend states. `own`
 * headers replace the backend's of the same name.
 */
export function responseHead(
  raw: (Buffer | string)[],
  own: Record<string, string>,
  { trailers, close, costHeader }: ResponseHeadOptions,
) {
  const headers: string[] = [];
  let cost = INVALID_COST;
  let costs = 0;
  let lengths = 0;
  for (const name in own) {
    headers.push(name, own[name]!);
    lengths |= 1 << (name.length & 31);
  }
  let contentLength: string | undefined;
  let trailer: string | undefined;
  let named: string[] | undefined;
  for (let at = 0; at < raw.length; at += 2) {
    const name = latin1(raw[at]!);
    const value = latin1(raw[at + 1]!);
    switch (kindOf(name)) {
      case "content-length":
        contentLength = value;
        headers.push(name, value);
        break;
      case "connection":
        named = namedByConnection(value, named);
        break;
      case "trailer":
        trailer = value;
        break;
      case "hop-by-hop":
      case "transfer-encoding":
      case "upgrade":
      case "te":
        break;
      default:
        if (costHeader !== undefined && isNamed(name, costHeader)) {
          costs++;
          cost = reportedCost(value);
        } else if ((lengths & (1 << (name.length & 31))) === 0 || !isAmong(name, own)) headers.push(name, value);
    }
  }
  const kept = named === undefined ? headers : withoutNamed(headers, named, own);
  if (trailers && trailer !== undefined && contentLength === undefined) kept.push("Trailer", trailer);
  kept.push("Via", VIA);
  if (close) kept.push("Connection", "close");
  return { headers: kept, contentLength, cost: costs === 1 ? cost : INVALID_COST };
}

/** `lower` is in lower case. */
function isNamed(name: string, lower: string): boolean {
  return name.length === lower.length && name.toLowerCase() === lower;
}

function isAmong(name: string, own: Record<string, string>): boolean {
  const lower = name.toLowerCase();
  for (const ownName in own) {
    if (ownName.length === name.length && ownName.toLowerCase() === lower) return true;
  }
  return false;
}

/** Raw trailers as pairs, without names that affect framing or routing. */
export function trailerPairs(raw: (Buffer | string)[], costHeader?: string): [string, string][] {
  const pairs: [string, string][] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = latin1(raw[at]!);
    const isCost = costHeader !== undefined && isNamed(name, costHeader);
    if (kindOf(name) === "end-to-end" && !isCost) pairs.push([name, latin1(raw[at + 1]!)]);
  }
  return pairs;
}

export function latin1(text: Buffer | string): string {
  return typeof text === "string" ? text : text.toString("latin1");
}
