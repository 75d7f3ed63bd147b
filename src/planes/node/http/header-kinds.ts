/** Sorts header names: the few that a proxy must look at, and all the others, at the price of one lookup. */

export const END_TO_END = 0;
/** Meant for this hop only: never passed on. */
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
  // Answered by this hop, which asks for the body itself once it wants it.
  expect: HOP_BY_HOP,
  "x-forwarded-for": FORWARDED_FOR,
  "x-forwarded-proto": FORWARDED_PROTO,
  "x-forwarded-host": FORWARDED_HOST,
  forwarded: FORWARDED,
};

/** Frequent names that are as long as a special one: known as well, they need no second look. */
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

/** Names in Connection, in lower case and without what every connection may say; undefined when that is all. */
export function namedByConnection(value: string, before: string[] | undefined): string[] | undefined {
  if (value === "keep-alive" || value === "close") return before;
  let names = before;
  for (const part of value.split(",")) {
    const name = part.trim().toLowerCase();
    // Framing and addressing are not the sender's to switch off.
    if (name === "" || name === "keep-alive" || name === "close" || name === "host" || name === "content-length")
      continue;
    if (names === undefined) names = [name];
    else names.push(name);
  }
  return names;
}
