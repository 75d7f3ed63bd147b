/** Reads bearer tokens and finds out whose they are, in a time that reveals nothing about them. */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";

/** Returns the empty string if the Authorization header has no bearer token. */
export function bearerToken(authorization = ""): string {
  return /^Bearer +([!-~]+)$/i.exec(authorization)?.[1] ?? "";
}

/** Unknown to callers, so the time of a lookup tells them nothing about the digests. */
const secret = randomBytes(32);
const digest = (text: string) => createHmac("sha256", secret).update(text).digest();

/** Returns the holder of a token. An empty token has no holder. */
export function tokenHolders<T>(
  tokens: Iterable<readonly [token: string, holder: T]>,
): (given: string) => T | undefined {
  const holders = new Map<string, { expected: Buffer; holder: T }>();
  for (const [token, holder] of tokens) {
    const expected = digest(token);
    if (token !== "") holders.set(expected.toString("latin1"), { expected, holder });
  }
  return (given) => {
    const own = digest(given);
    const found = holders.get(own.toString("latin1"));
    return found !== undefined && timingSafeEqual(own, found.expected) ? found.holder : undefined;
  };
}
