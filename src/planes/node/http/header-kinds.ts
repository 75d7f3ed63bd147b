/** Classifies header names with one lookup: those that the proxy handles, and all others. */

export const END_TO_END = 0;
/** For this hop only: not forwarded. */
export const HOP_BY_HOP = 1;
export const HOST = 2;
export const CONTENT_LENGTH = 3;
export const TRANSFER_ENCODING = 4;
export const CONNECTION = 5;
export const UPGRADE = 6;
export const TE = 7;
export const TRAILER = 8;
export const FORWARDED_FOR = 9;
export const FORWARDED_PROTO = 10;
export const FORWARDED_HOST = 11;
export const FORWARDED = 12;

const special: Record<string, number> = {
  host: HOST,
  "content-length": CONTENT_LENGTH,
  "transfer-encoding": TRANSFER_ENCODING,
  connection: CONNECTION,
  upgrade: UPGRADE,
  te: TE,
  trailer: TRAILER,
  "keep-alive": HOP_BY_HOP,
  "proxy-connection": HOP_BY_HOP,
  "proxy-authenticate": HOP_BY_HOP,
  "proxy-authorization": HOP_BY_HOP,
  "proxy-authentication-info": HOP_BY_HOP,
  // Handled by this hop, which sends 100 Continue when it reads the body.
  expect: HOP_BY_HOP,
  "x-forwarded-for": FORWARDED_FOR,
  "x-forwarded-proto": FORWARDED_PROTO,
  "x-forwarded-host": FORWARDED_HOST,
  forwarded: FORWARDED,
};

/** Frequent names with the length of a special one, so that they need no second lookup. */
const frequent = [
  "Accept",
  "Accept-Encoding",
  "Accept-Language",
  "Authorization",
  "Cache-Control",
  "Content-Encoding",
  "Content-Type",
  "Cookie",
  "Date",
  "ETag",
  "Last-Modified",
  "Location",
  "Origin",
  "Referer",
  "Server",
  "Set-Cookie",
  "User-Agent",
  "Vary",
  "X-App-Id",
  "X-Powered-By",
  "X-User-Id",
];

const kinds = new Map<string, number>();
const specialLengths: boolean[] = new Array(64).fill(false);
for (const [name, kind] of Object.entries(special)) {
  kinds.set(name, kind);
  kinds.set(canonical(name), kind);
  specialLengths[name.length] = true;
}
for (const name of frequent) {
  kinds.set(name, END_TO_END);
  kinds.set(name.toLowerCase(), END_TO_END);
}

function canonical(name: string): string {
  return name.replace(/(^|-)[a-z]/g, (start) => start.toUpperCase());
}

export function kindOf(name: string): number {
  const kind = kinds.get(name);
  if (kind !== undefined) return kind;
  if (specialLengths[name.length] !== true) return END_TO_END;
  return kinds.get(name.toLowerCase()) ?? END_TO_END;
}

/** Header names in Connection, in lower case, without keep-alive and close; undefined if there are none. */
export function namedByConnection(value: string, before: string[] | undefined): string[] | undefined {
  if (value === "keep-alive" || value === "close") return before;
  let names = before;
  for (const part of value.split(",")) {
    const name = part.trim().toLowerCase();
    // A client must not remove headers for framing and routing.
    if (name === "" || name === "keep-alive" || name === "close" || name === "host" || name === "content-length")
      continue;
    if (names === undefined) names = [name];
    else names.push(name);
  }
  return names;
}
