/** Small parts of the proxy: log lines, retries, and its own responses. */
import { describe, expect, it } from "vitest";
import { gatewayRefusal } from "../../../../src/core/refusals.js";
import { trailerPairs } from "../../../../src/planes/node/http/forwarded-heads.js";
import { kindOf, namedByConnection } from "../../../../src/planes/node/http/header-kinds.js";
import { valuesOf } from "../../../../src/planes/node/http/request-head.js";
import { rawResponse } from "../../../../src/planes/node/http/responses.js";
import { mayRepeat, reasonOf } from "../../../../src/planes/node/upstream/failures.js";
import { printable } from "../../../../src/shared/printable.js";

describe("a log line", () => {
  it("has no control characters and a limited length", () => {
    expect(printable("a\r\nb\0\x1b[31m\x7f\x9b\u2028")).toBe("a\\u000d\\u000ab\\u0000\\u001b[31m\\u007f\\u009b\\u2028");
    expect(printable("x".repeat(1_000))).toHaveLength(201);
  });
});

describe("headers", () => {
  it("are classified case-insensitively", () => {
    for (const name of ["TRANSFER-ENCODING", "Transfer-Encoding", "transfer-encoding", "tRANSFER-eNCODING"]) {
      expect(kindOf(name)).toBe(kindOf("transfer-encoding"));
      expect(kindOf(name)).not.toBe("end-to-end");
    }
    for (const name of ["constructor", "__proto__", "X-Te", "toString", "hasOwnProperty"]) {
      expect(kindOf(name)).toBe("end-to-end");
    }
  });

  it("named by Connection end here, except framing and address", () => {
    expect(namedByConnection("close", undefined)).toBeUndefined();
    expect(namedByConnection(" Keep-Alive , Host,content-length,, X-A", undefined)).toEqual(["x-a"]);
    expect(namedByConnection("X-B", ["x-a"])).toEqual(["x-a", "x-b"]);
  });

  it("are found with all their values", () => {
    expect(valuesOf(["X-A", "1", "x-b", "2", "x-a", "3", "X-AB", "4"], "x-a")).toEqual(["1", "3"]);
  });

  it("of a trailer cannot change how a message was framed", () => {
    expect(
      trailerPairs([Buffer.from("X-Sum"), Buffer.from("1"), "Content-Length", "5", "transfer-encoding", "x"]),
    ).toEqual([["X-Sum", "1"]]);
  });
});

describe("a second try is allowed", () => {
  const untouched = { connected: false, responding: false, bodyStarted: false };
  it.each([
    ["POST", untouched, true],
    ["POST", { ...untouched, connected: true }, false],
    ["PATCH", { ...untouched, connected: true }, false],
    ["GET", { ...untouched, connected: true }, true],
    ["DELETE", { ...untouched, connected: true }, true],
    ["PUT", { ...untouched, connected: true, bodyStarted: true }, false],
    ["GET", { ...untouched, connected: true, responding: true }, false],
  ])("%s %o: %s", (method, progress, expected) => expect(mayRepeat(method, progress)).toBe(expected));

  it("a failure has a reason that tells who is to blame", () => {
    const failure = (code: string) => Object.assign(new Error("x"), { code });
    expect(reasonOf(failure("ECONNREFUSED"), false)).toBe("upstream_unreachable");
    expect(reasonOf(failure("ECONNRESET"), true)).toBe("upstream_broken");
    expect(reasonOf(failure("UND_ERR_CONNECT_TIMEOUT"), false)).toBe("upstream_connect_timeout");
    expect(reasonOf(failure("UND_ERR_INVALID_ARG"), false)).toBe("malformed_request");
  });
});

describe("an answer", () => {
  it("is JSON with error and reason", () => {
    const { status, body } = gatewayRefusal("upstream_timeout");
    expect(status).toBe(504);
    expect(JSON.parse(body)).toEqual({ error: "gateway_timeout", reason: "upstream_timeout" });
  });

  it("can be sent as text, and closes the connection then", () => {
    const refusal = gatewayRefusal("malformed_request");
    const text = rawResponse({ ...refusal, headers: {} });
    expect(text).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
    expect(text).toContain("\r\nConnection: close\r\n");
    const [head, body] = text.split("\r\n\r\n");
    expect(head).toContain(`Content-Length: ${body!.length}`);
  });
});
