/** What labels may say: from fixed lists and from the configuration only, so that no request can make a new one. */
import * as codes from "../../core/codes.js";

/** Of apps beyond those that have a label of their own. */
export const OTHER_APPS = "other";
/** Of requests that belong to no app: unknown, or not identified. */
export const NO_APP = "none";

export const methodLabels = ["GET", "HEAD", "OPTIONS", "DELETE", "POST", "PUT", "PATCH", "OTHER"] as const;

/** The place of a method in `methodLabels`. */
export function methodIndex(method: string): number {
  switch (method) {
    case "GET":
      return 0;
    case "HEAD":
      return 1;
    case "OPTIONS":
      return 2;
    case "DELETE":
      return 3;
    case "POST":
      return 4;
    case "PUT":
      return 5;
    case "PATCH":
      return 6;
    default:
      return 7;
  }
}

/** Why a request can be refused: every code that is about requests. Those of slots are written in capitals. */
export const reasons: readonly string[] = Object.values(codes).filter(
  (code) => code !== codes.OK && code === code.toLowerCase(),
);

const reasonIndexes = new Map(reasons.map((reason, index) => [reason, index]));

/** The place of a name in `reasons`, if it is one. */
export function reasonPlace(name: string): number | undefined {
  return reasonIndexes.get(name);
}

/** The place of a code in `reasons`. Whoever decides has no other codes. */
export function reasonIndex(code: string): number {
  return reasonIndexes.get(code) ?? 0;
}

const taken: readonly string[] = [codes.SLOT_SUCCESS, codes.SLOT_ALREADY_HELD];

/** Why a connection can be refused: every code of slots that is no success, a store that is gone, and whatever else. */
export const connectionReasons: readonly string[] = [
  ...Object.values(codes).filter((code) => code === code.toUpperCase() && !taken.includes(code)),
  codes.STORE_UNAVAILABLE,
  "other",
];

/** The first so many apps of the configuration are called by their names. Every process must come to the same. */
export function appLabels(apps: readonly string[], most: number): Map<string, string> {
  return new Map(apps.map((app, index) => [app, index < most ? app : OTHER_APPS]));
}
