/**
 * The parts that the key of a limit can have. All that is known of each is in this file: the configuration, the library, the
 * planes and the commands derive it from here, and a test compares the pages.
 */
import { networkText } from "../core/address.js";
import type { CostProfile } from "../core/cost.js";
import { hostName } from "../core/host.js";
import { pathValue } from "../core/path.js";
import { cutText, hasControls, lowerText } from "../core/platform.js";

export interface KeyKind {
  name: string;
  /** The part is written with a name that this regular expression describes, as in `header:NAME`. */
  named?: string;
  /** Clients choose the values, so their number has to be limited. */
  isFree?: boolean;
  /** What a host has to read or find for it, if it need not do so for each decision. */
  needs?: "address" | "host" | "path" | "route";
}

export const KEY_KINDS = [
  { name: "app" },
  { name: "user", isFree: true },
  { name: "ip", isFree: true, needs: "address" },
  { name: "method", isFree: true },
  { name: "host", isFree: true, needs: "host" },
  { name: "route", needs: "route" },
  { name: "path", isFree: true, needs: "path" },
  { name: "header", isFree: true, named: "[A-Za-z0-9_-]{1,64}" },
] as const satisfies readonly KeyKind[];

type KindName = (typeof KEY_KINDS)[number]["name"];

export interface KeyPart {
  kind: KindName;
  /** Of a header, in lower case; empty for kinds without names. */
  name: string;
}

/** What decisions depend on besides app, method and length. Header names are in lower case. */
export interface RequestAttributes {
  app: string;
  /** "anonymous" without one. */
  user: string;
  method: string;
  /** As in the Host header. */
  host: string;
  /** As received; a query is ignored. */
  path: string;
  /** The path by which the server chose what serves the request, if it has rewritten `path`. */
  routedPath?: string | undefined;
  /** The client's address; may be invalid. */
  address: string;
  /** The prices of the request's route; unset: those of its app. */
  profile?: CostProfile | undefined;
  /** How often the header was sent: 0, 1, or 2 for more. */
  headerCount(name: string): number;
  /** The value of a header that was sent once. Each character is a byte. */
  header(name: string): string;
}

/** What is found out about a request once, for all rules. */
export interface FoundValues {
  route: string;
  pathValue: string;
}

/** How values of a limit are compared. */
export interface Comparison {
  /** Bits of an address that are one value. */
  bitsOf4: number;
  bitsOf6: number;
  /** Paths are compared in lower case. */
  ignoresPathCase: boolean;
}

/** Instead of a value that cannot be used. No usable value contains it. */
export const INVALID = "\n";
/** Longer values are invalid in a header; a path is cut. */
export const LONGEST_VALUE = 1024;

/** The value as received; INVALID if there are several. */
export function receivedValue(
  { kind, name }: KeyPart,
  { ignoresPathCase }: Comparison,
  request: RequestAttributes,
  found: FoundValues,
): string {
  switch (kind) {
    case "user":
      return request.user;
    case "ip":
      return request.address;
    case "header": {
      const count = request.headerCount(name);
      if (count > 1) return INVALID;
      return count === 0 ? "" : request.header(name);
    }
    case "app":
      return request.app;
    case "method":
      return request.method;
    case "host":
      return request.host;
    case "route":
      return found.route;
    case "path":
      return ignoresPathCase ? lowerText(found.pathValue) : found.pathValue;
  }
}

/** The value that the bucket is named after; INVALID if it cannot be used. */
export function normalValue({ kind }: KeyPart, { bitsOf4, bitsOf6 }: Comparison, received: string): string {
  switch (kind) {
    case "ip": {
      const network = networkText(received, bitsOf4, bitsOf6);
      return network === "" ? INVALID : network;
    }
    case "header":
      return received.length > LONGEST_VALUE || hasControls(received) ? INVALID : received;
    case "host":
      return hostName(received);
    case "path":
      return cutText(received, 0, LONGEST_VALUE);
    default:
      return received;
  }
}

/** A value that an operator has written, one character per byte, as requests have it. */
export function writtenValue({ kind }: KeyPart, ignoresPathCase: boolean, bytes: string): string {
  if (kind === "host") return hostName(bytes);
  if (kind !== "path") return bytes;
  return ignoresPathCase ? lowerText(pathValue(bytes)) : pathValue(bytes);
}

/** Its values are addresses: lists of values may have networks. */
export function isAddressPart({ kind }: KeyPart): boolean {
  return kind === "ip";
}
