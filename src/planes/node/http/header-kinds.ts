/** Classifies header names: those that the proxy handles, and all others. */

/** Each handled in its own way. */
const handled = [
  "host",
  "content-length",
  "transfer-encoding",
  "connection",
  "upgrade",
  "te",
  "trailer",
  "x-forwarded-for",
  "x-forwarded-proto",
  "x-forwarded-host",
  "forwarded",
] as const;

/** For this hop only: not forwarded. */
const hopByHop = [
  "keep-alive",
  "proxy-connection",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-authentication-info",
  // Handled by this hop, which sends 100 Continue when it reads the body.
  "expect",
];

export type HeaderKind = (typeof handled)[number] | "hop-by-hop" | "end-to-end";

const kinds = new Map<string, HeaderKind>(handled.map((name) => [name, name]));
for (const name of hopByHop) kinds.set(name, "hop-by-hop");
/** Most names have another length, and are not converted to lower case. */
const lengths = new Set([...kinds.keys()].map(({ length }) => length));

export function kindOf(name: string): HeaderKind {
  return (lengths.has(name.length) ? kinds.get(name.toLowerCase()) : undefined) ?? "end-to-end";
}

/** Whether a header has one of the names. A hyphen equals an underscore, because CGI and WSGI servers do not distinguish them. */
export function nameMatcher(names: readonly string[]): (name: string) => boolean {
  const plain = (name: string) => name.toLowerCase().replaceAll("_", "-");
  const wanted = new Set(names.map(plain));
  const wantedLengths = new Set(names.map(({ length }) => length));
  return (name) => wantedLengths.has(name.length) && wanted.has(plain(name));
}

/** Removes the headers named by Connection from a flat list, except those of this hop. */
export function withoutNamed(headers: string[], named: string[], own: Record<string, string>): string[] {
  const kept: string[] = [];
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at]!;
    if (Object.hasOwn(own, name) || !named.includes(name.toLowerCase())) kept.push(name, headers[at + 1]!);
  }
  return kept;
}

/** Header names in Connection, in lower case, without keep-alive and close; undefined if there are none. */
export function namedByConnection(value: string, before: string[] | undefined): string[] | undefined {
  if (value === "keep-alive" || value === "close") return before;
  // A client must not remove headers for framing and routing.
  const kept = ["", "keep-alive", "close", "host", "content-length"];
  const names = value.split(",").map((part) => part.trim().toLowerCase());
  const named = [...(before ?? []), ...names.filter((name) => !kept.includes(name))];
  return named.length === 0 ? undefined : named;
}
