/** Request smuggling: a request whose end is ambiguous is rejected before the decision, and its connection is closed. */
import { afterEach, describe, expect, it } from "vitest";
import { mirror, startBackend, startBytesBackend } from "../../../support/http-backend.js";
import { bodyOf, openRaw, sendRaw, statusOf } from "../../../support/http-client.js";
import { createCleanup, startProxy } from "../../../support/http-proxy.js";

const cleanup = createCleanup();
afterEach(() => cleanup.run());

const SMUGGLED = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
const post = (headers: string, body = "0\r\n\r\n") =>
  `POST / HTTP/1.1\r\nHost: a\r\n${headers}\r\n\r\n${body}${SMUGGLED}`;

const corpus: [name: string, bytes: string, status?: number][] = [
  ["Content-Length -5", post("Content-Length: -5")],
  ["Content-Length +5", post("Content-Length: +5")],
  ["Content-Length 1e3", post("Content-Length: 1e3")],
  ["Content-Length NaN", post("Content-Length: NaN")],
  ["Content-Length 0x10", post("Content-Length: 0x10")],
  ["Content-Length 5 5", post("Content-Length: 5 5")],
  ["Content-Length 1.5", post("Content-Length: 1.5")],
  ["Content-Length empty", post("Content-Length:")],
  ["Content-Length of 23 digits", post("Content-Length: 12345678901234567890123")],
  ["Content-Length of 23 digits, mostly zeros", post("Content-Length: 00000000000000000000005")],
  ["Content-Length above 2^53", post("Content-Length: 9007199254740993")],
  ["Content-Length twice, the same", post("Content-Length: 5\r\nContent-Length: 5")],
  ["Content-Length twice, different", post("Content-Length: 5\r\nContent-Length: 6")],
  ["Content-Length as a list", post("Content-Length: 5, 5")],
  ["Content-Length with Transfer-Encoding", post("Content-Length: 5\r\nTransfer-Encoding: chunked")],
  ["Transfer-Encoding with Content-Length", post("Transfer-Encoding: chunked\r\nContent-Length: 5")],
  ["Transfer-Encoding with a space before the colon", post("Transfer-Encoding : chunked")],
  ["Content-Length with a space before the colon", post("Content-Length : 5")],
  ["Transfer-Encoding identity", post("Transfer-Encoding: identity")],
  ["Transfer-Encoding xchunked", post("Transfer-Encoding: xchunked")],
  ["Transfer-Encoding chunked, then another", post("Transfer-Encoding: chunked, gzip")],
  ["Transfer-Encoding twice", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity")],
  ["Transfer-Encoding chunked twice", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked")],
  ["Transfer-Encoding gzip, chunked", post("Transfer-Encoding: gzip, chunked"), 501],
  ["Transfer-Encoding folded", post("Transfer-Encoding:\r\n chunked")],
  ["a folded header", post("X-A: b\r\n c: d\r\nContent-Length: 5")],
  ["a header line that begins with a space", `GET / HTTP/1.1\r\n Host: a\r\n\r\n${SMUGGLED}`],
  ["a vertical tab in Transfer-Encoding", post("Transfer-Encoding: \x0bchunked")],
  ["NUL in a header", post("X-A: a\0b\r\nContent-Length: 5")],
  ["a bare CR in a header", post("X-A: a\rX-B: b\r\nContent-Length: 5")],
  ["a header without colon", post("X-A\r\nContent-Length: 5")],
  ["a header without name", post(": x\r\nContent-Length: 5")],
  ["brackets in a header's name", post("X[A]: b\r\nContent-Length: 5")],
  [
    "Transfer-Encoding from an HTTP/1.0 client",
    `POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${SMUGGLED}`,
  ],
  ["no Host", `GET / HTTP/1.1\r\n\r\n${SMUGGLED}`],
  ["two Hosts", `GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n${SMUGGLED}`],
  ["a Host with a path", `GET / HTTP/1.1\r\nHost: a/b\r\n\r\n${SMUGGLED}`],
  ["a Host with a user", `GET / HTTP/1.1\r\nHost: a@b\r\n\r\n${SMUGGLED}`],
  ["an empty Host", `GET / HTTP/1.1\r\nHost:\r\n\r\n${SMUGGLED}`],
  ["an absolute target with a user", `GET http://a@b/ HTTP/1.1\r\nHost: b\r\n\r\n${SMUGGLED}`],
  ["an absolute target with another scheme", `GET ftp://b/ HTTP/1.1\r\nHost: b\r\n\r\n${SMUGGLED}`],
  ["a target that is not a path", `OPTIONS * HTTP/1.1\r\nHost: b\r\n\r\n${SMUGGLED}`],
  ["a fragment in the target", `GET /a#b HTTP/1.1\r\nHost: b\r\n\r\n${SMUGGLED}`],
  ["a space in the target", `GET /a b HTTP/1.1\r\nHost: b\r\n\r\n${SMUGGLED}`],
  ["a control character in the target", `GET /a\x01b HTTP/1.1\r\nHost: b\r\n\r\n${SMUGGLED}`],
  ["HTTP/2.0", `GET / HTTP/2.0\r\nHost: b\r\n\r\n${SMUGGLED}`],
  ["HTTP/1.2", `GET / HTTP/1.2\r\nHost: b\r\n\r\n${SMUGGLED}`],
  ["the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
  ["TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"],
  ["lines that end in LF only", "GET / HTTP/1.1\nHost: a\n\nGET /smuggled HTTP/1.1\nHost: a\n\n"],
];

describe("a malformed or ambiguous request", () => {
  it.each(corpus)("is rejected, and its connection is closed: %s", async (_, bytes, status = 400) => {
    const backend = await cleanup.add(startBackend(mirror));
    const { port, admission, lines } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const text = await sendRaw(port, bytes);
    expect(statusOf(text)).toBe(status);
    expect(JSON.parse(bodyOf(text))).toMatchObject({ error: expect.any(String), reason: expect.any(String) });
    expect(text).toMatch(/\r\nConnection: close\r\n/i);
    expect(text.match(/HTTP\/1\.1 /g), "one response, and none to the smuggled request").toHaveLength(1);
    expect(admission.arrivals, "no decision was made").toHaveLength(0);
    expect(backend.connections()).toBe(0);
    expect(lines).toHaveLength(1);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the test checks that logs contain none
    expect(JSON.stringify(Object.values(lines[0]!).join())).not.toMatch(/[\u0000-\u001f\u007f]/);
  });
});

const badChunks: [name: string, chunks: string][] = [
  ["a size that is not a number", "zz\r\n"],
  ["a negative size", "-1\r\n"],
  ["a size of 17 digits", "11111111111111111\r\n"],
  ["a size with a prefix", "0x3\r\nabc\r\n"],
  ["a chunk longer than its size", "3\r\nabcdef\r\n"],
  ["a bare LF after the size", "3\nabc\n0\n\n"],
];

describe("a chunked body with an invalid chunk", () => {
  it.each(badChunks)("is rejected with 400, and the exchange is settled: %s", async (_, chunks) => {
    const backend = await cleanup.add(startBackend(mirror));
    const { port, admission } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const client = await openRaw(port);
    client.write("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n");
    client.write(chunks);
    const text = await client.closed();
    expect(statusOf(text)).toBe(400);
    expect(JSON.parse(bodyOf(text))).toEqual({ error: "bad_request", reason: "malformed_request" });
    expect((await admission.settlement()).responseBytes).toBe(0);
  });

  it("does not affect the response to a valid request before it", async () => {
    const backend = await cleanup.add(startBackend(mirror));
    const { port, admission } = await cleanup.add(startProxy({ targets: [backend.target] }));
    const text = await sendRaw(port, "GET /sound HTTP/1.1\r\nHost: a\r\n\r\n\x01\x02\x03\r\n\r\n");
    expect(statusOf(text)).toBe(200);
    expect(text).toContain("/sound");
    expect(admission.arrivals).toHaveLength(1);
  });
});

describe("a malformed or ambiguous response of a backend", () => {
  it("is not forwarded; the client gets 502", async () => {
    for (const response of [
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
      "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nhello",
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "HTTP/1.1 200 OK\r\nX-A: a\0b\r\nContent-Length: 0\r\n\r\n",
      "ICY 200 OK\r\n\r\n",
      "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    ]) {
      const backend = await cleanup.add(startBytesBackend(response, { end: true }));
      const { port } = await cleanup.add(startProxy({ targets: [backend.target] }));
      const text = await sendRaw(port, "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
      expect(statusOf(text), response).toBe(502);
      expect(JSON.parse(bodyOf(text))).toEqual({ error: "bad_gateway", reason: "upstream_broken" });
    }
  });
});
