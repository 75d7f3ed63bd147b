/** Reads bearer tokens and compares them in constant time. */
import { createHash, timingSafeEqual } from "node:crypto";

/** Returns the empty string if the Authorization header has no bearer token. */
export function bearerToken(authorization = ""): string {
  return /^Bearer +([!-~]+)$/i.exec(authorization)?.[1] ?? "";
}

const digest = (text: string) => createHash("sha256").update(text).digest();

/** Compares digests, so that the time does not reveal how much of a token was right. An empty token matches nothing. */
export function tokenCheck(token: string): (given: string) => boolean {
  const expected = digest(token);
  return (given) => {
    const same = timingSafeEqual(digest(given), expected);
    return same && token !== "";
  };
}
