/** Requests of which two servers could disagree where they end, or whose they are: sent to any plane as they are. */

const SMUGGLED = "GET /smuggled HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const post = (headers: string, body = "0\r\n\r\n") =>
  `POST / HTTP/1.1\r\nHost: a\r\n${headers}\r\n\r\n${body}${SMUGGLED}`;
const get = (headers: string) => `GET / HTTP/1.1\r\nHost: a\r\n${headers}\r\nConnection: close\r\n\r\n`;
const many = (count: number) => Array.from({ length: count }, (_, i) => `X-H-${i}: v`).join("\r\n");

export interface OddRequest {
  name: string;
  bytes: string;
  /** What the Node gateway answers. */
  node: number;
  /** What nginx answers, where that is something else, and why that is as good. */
  nginx?: { status: number; why: string };
  /** The same of Envoy. */
  envoy?: { status: number; why: string };
}

const bad = (name: string, bytes: string, others: Pick<OddRequest, "nginx" | "envoy"> = {}): OddRequest => ({
  name,
  bytes,
  node: 400,
  ...others,
});

const UNKNOWN_CODING = { status: 501, why: "it says of every coding that it does not know it" };

export const oddRequests: OddRequest[] = [
  {
    name: "TRACE",
    bytes: "TRACE / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    node: 501,
    nginx: { status: 405, why: "it never allows TRACE" },
  },
  { name: "an identity header", bytes: get("X-App-Id: video"), node: 200 },
  { name: "an identity header twice", bytes: get("X-App-Id: video\r\nX-App-Id: video"), node: 400 },
  { name: "a user header twice", bytes: get("X-User-Id: a\r\nX-User-Id: b"), node: 400 },
  { name: "an identity header with braces", bytes: get("X-App-Id: a{b}"), node: 400 },
  { name: "an identity header that is empty", bytes: get("X-App-Id:"), node: 400 },
  { name: "an identity header of 129 characters", bytes: get(`X-App-Id: ${"a".repeat(129)}`), node: 400 },
  { name: "an identity header in other cases", bytes: get("x-aPP-iD: video"), node: 200 },
  { name: "an API key that nobody has", bytes: get("X-API-Key: no-key-of-anybody"), node: 200 },
  { name: "101 headers", bytes: get(many(99)), node: 431 },
  { name: "100 headers", bytes: get(many(98)), node: 200 },
  { name: "HTTP/1.0", bytes: "GET / HTTP/1.0\r\n\r\n", node: 200 },
  {
    name: "a chunked body",
    node: 200,
    bytes: "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
  },
  bad("Content-Length -5", post("Content-Length: -5")),
  bad("Content-Length +5", post("Content-Length: +5")),
  bad("Content-Length 1e3", post("Content-Length: 1e3")),
  bad("Content-Length NaN", post("Content-Length: NaN")),
  bad("Content-Length empty", post("Content-Length:")),
  bad("Content-Length of 23 digits", post("Content-Length: 12345678901234567890123")),
  bad("Content-Length above 2^53", post("Content-Length: 9007199254740993")),
  bad("Content-Length twice, the same", post("Content-Length: 5\r\nContent-Length: 5")),
  bad("Content-Length as a list", post("Content-Length: 5, 5")),
  bad("Content-Length with Transfer-Encoding", post("Content-Length: 5\r\nTransfer-Encoding: chunked")),
  bad("Transfer-Encoding with a space before the colon", post("Transfer-Encoding : chunked")),
  bad("Transfer-Encoding identity", post("Transfer-Encoding: identity"), {
    nginx: UNKNOWN_CODING,
    envoy: UNKNOWN_CODING,
  }),
  bad("Transfer-Encoding twice", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity"), {
    envoy: UNKNOWN_CODING,
  }),
  bad("NUL in a header", post("X-A: a\0b\r\nContent-Length: 5")),
  {
    name: "a header without colon",
    node: 400,
    bytes: get("X-A"),
    nginx: { status: 200, why: "nginx drops the line and passes on the others: the backend sees one sound request" },
  },
  bad("no Host", `GET / HTTP/1.1\r\n\r\n${SMUGGLED}`),
  bad("two Hosts", `GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n${SMUGGLED}`),
  bad("a Host with a path", `GET / HTTP/1.1\r\nHost: a/b\r\n\r\n${SMUGGLED}`),
  bad("a control character in the target", `GET /a\x01b HTTP/1.1\r\nHost: b\r\n\r\n${SMUGGLED}`),
  bad("HTTP/2.0", `GET / HTTP/2.0\r\nHost: b\r\n\r\n${SMUGGLED}`, {
    nginx: { status: 505, why: "nginx has a status of its own for that" },
    envoy: {
      status: 200,
      why: "Envoy takes it for HTTP/1.0: the backend sees one sound request, and the rest is not read",
    },
  }),
];

const pathOf = (path: string) => `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`;
const RESOLVED = { status: 200, why: "it resolves dot segments and //, and the backend sees the resolved path" };
const DECODED = { status: 200, why: "it takes backslashes for slashes, and the backend sees slashes" };
const ODD_PATHS = ["/a/%00", "/a/%1f", "/a/%zz", "/a/%", "/a/%u0041", "/a#b", "/?a#b", "*"];
const UNRESOLVED_PATHS = ["/a/../b", "/./a", "/a/..?b", "/a/%2E%2e/b", "/a//b", "//a"];

/** By default. */
export const oddPaths: OddRequest[] = [
  ...ODD_PATHS.map((path) => bad(`the path ${path}`, pathOf(path))),
  bad("the path /a\\b", pathOf("/a\\b"), { envoy: DECODED }),
  bad("the path /a/..;/b", pathOf("/a/..;/b"), { envoy: RESOLVED }),
  ...[...UNRESOLVED_PATHS, "/a%2fb", "/a%5cb", "/%252e", "http://a/b", "/a;b", "/%c3%a9"].map((path) => ({
    name: `the path ${path}`,
    bytes: pathOf(path),
    node: 200,
  })),
];

/** With `request_limits.path: strict`. */
export const ambiguousPaths: OddRequest[] = [
  ...[...ODD_PATHS, "/a/%5c../b", "/a/..%3B/b", "/%252e%252e/b", "/a%2fb"].map((path) =>
    bad(`the path ${path}`, pathOf(path)),
  ),
  ...[...UNRESOLVED_PATHS, "/a/..;/b"].map((path) => bad(`the path ${path}`, pathOf(path), { envoy: RESOLVED })),
  ...["/", "/a.b/..c/d;x=1", "/a%20b/%C3%BC", "/100%25", "/a?b=//..;/%5c%zz"].map((path) => ({
    name: `the path ${path}`,
    bytes: pathOf(path),
    node: 200,
  })),
];
