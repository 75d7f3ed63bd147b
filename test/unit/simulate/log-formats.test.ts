/** Every log format is parsed; invalid lines are rejected with a reason. */
import { describe, expect, it } from "vitest";
import { createParser, detectFormat, type LogFormat } from "../../../src/simulate/log-format.js";
import { type FieldNames, type LoggedRequest, requestOf } from "../../../src/simulate/logged-request.js";
import { combinedLine, envoyLine, generateRequests, jsonLine } from "../../support/generated-log.js";

const NOON = Date.parse("2026-07-28T12:00:00Z");

/** The line with its values checked; `wrong`: why it cannot be read. */
function read(format: LogFormat, text: string, fields: FieldNames = {}) {
  const line = createParser(format, fields)(text);
  if (typeof line === "string") return { wrong: line, line: {} as never };
  const request = requestOf(line, [], 1);
  const checked = typeof request === "string" ? {} : request;
  return { wrong: typeof request === "string" ? request : "", line: { ...line, durationMs: Number.NaN, ...checked } };
}

describe("combined", () => {
  const head = '203.0.113.7 - frank [28/Jul/2026:14:00:00 +0200] "GET /video/a?b=c HTTP/1.1" 200 2326';

  it("has time with zone, user, method, path and response size", () => {
    const { wrong, line } = read("combined", `${head} "http://e.test/" "Mozilla/5.0 (X11)"`);
    expect(wrong).toBe("");
    expect(line).toMatchObject({
      ...{ time: { ms: NOON, coarse: true }, user: "frank", method: "GET", path: "/video/a?b=c" },
      ...{ requestBytes: 0, responseBytes: 2326, durationMs: 0 },
    });
  });

  it.each([
    ["the common format, without referer and user agent", head, 2326],
    ["no body", head.replace("2326", "-"), 0],
    ["quotes in the path, as Apache writes them", head.replace("/video/a", '/a\\" b\\"'), 2326],
    ["quotes in the user agent", `${head} "-" "evil \\" agent" extra`, 2326],
  ])("%s", (_, text, responseBytes) => {
    expect(read("combined", text)).toMatchObject({ wrong: "", line: { responseBytes } });
  });

  it("may have more fields, by number or name, quoted or not", () => {
    const text = `${head} "-" "a b" 0.250 app="video service" rlen=512 last`;
    const { line } = read("combined", text);
    expect([line.field("1"), line.field("app"), line.field("rlen"), line.field("4")]).toEqual([
      ...["0.250", "video service", "512", "last"],
    ]);
    expect([line.field("5"), line.field("nothing")]).toEqual(["", ""]);
    const fields = { duration: { name: "1" }, request_bytes: { name: "rlen" } };
    expect(read("combined", text, fields).line).toMatchObject({ durationMs: 250, requestBytes: 512 });
    expect(read("combined", text, { duration: { name: "last" } }).line.durationMs).toBe(0);
    expect(read("combined", text, { duration: { name: "4" } }).wrong).toBe("the duration is not a number");
  });

  it("has the time of the end; with a duration, the start is computed", () => {
    const fields = { duration: { name: "1" } };
    const { line } = read("combined", `${head} "-" "-" 1.500`, fields);
    expect(requestOf(line, [], 1)).toMatchObject({ at: NOON - 1500, coarse: false, durationMs: 1500 });
  });

  it.each([
    ["", "time"],
    ["hello", "time"],
    [head.replace("28/Jul", "28/Foo"), "time"],
    [head.replace("28/Jul/2026:14:00:00 +0200", "2026-07-28T14:00:00+02:00."), "time"],
    [head.replace("GET /video/a?b=c HTTP/1.1", "-"), "request"],
    [head.replace("GET /video/a?b=c HTTP/1.1", "\\x16\\x03\\x01"), "request"],
    [head.replace("GET", "G(T"), "request"],
    [head.replace(" 200 2326", ""), "request"],
    [head.replace(" 2326", ""), "status"],
    [head.replace("2326", "-5"), "size"],
    [head.replace("2326", "1e3"), "size"],
    [head.replace("2326", "99999999999999999999999"), "size"],
  ])("%j is rejected for its %s", (text, about) => {
    expect(read("combined", text).wrong).toContain(about);
  });
});

describe("envoy", () => {
  const line =
    '[2026-07-28T12:00:00.310Z] "POST /api/v1/locations HTTP/2" 204 - 154 7 226 100 "10.0.35.28" "nsq2http" "cc21d9b0" "locations:8443" "10.0.2.1:80"';

  it("has both sizes and the time of the start", () => {
    const { wrong, line: read1 } = read("envoy", line);
    expect(wrong).toBe("");
    expect(read1).toMatchObject({
      ...{ time: { ms: NOON + 310, coarse: false }, atEnd: false, method: "POST", path: "/api/v1/locations" },
      ...{ requestBytes: 154, responseBytes: 7, durationMs: 226 },
    });
    expect(["authority", "user_agent", "x_forwarded_for", "request_id"].map((name) => read1.field(name))).toEqual([
      ...["locations:8443", "nsq2http", "10.0.35.28", "cc21d9b0"],
    ]);
    expect([read1.field("1"), read1.field("nothing")]).toEqual(["", ""]);
    expect(requestOf(read1, [], 1)).toMatchObject({ at: NOON + 310 });
  });

  it("supports Istio with three more fields, and custom fields at the end", () => {
    const istio = line.replace("204 - 154", '204 - via_upstream - "-" 154');
    expect(read("envoy", istio)).toMatchObject({ wrong: "", line: { requestBytes: 154, durationMs: 226 } });
    expect(read("envoy", `${line} "video"`).line.field("1")).toBe("video");
  });

  it.each([
    ["", "time"],
    [line.slice(1), "time"],
    [line.replace("2026-07-28T12:00:00.310Z", "yesterday"), "time"],
    [line.replace("POST /api/v1/locations HTTP/2", "- - -"), "request"],
    [line.replace(" 154 7 226", ""), ""],
    [line.slice(0, 66), "sizes"],
    [line.replace("154", "15x"), "size"],
    [line.replace("226", "2m"), "duration"],
  ])("%j is rejected for its %s", (text, about) => {
    const { wrong } = read("envoy", text);
    expect(wrong).not.toBe("");
    expect(wrong).toContain(about);
  });
});

describe("json", () => {
  it.each([
    [
      "Envoy's JSON",
      {
        start_time: "2026-07-28T12:00:00.500Z",
        method: "PUT",
        path: "/x",
        bytes_received: 9,
        bytes_sent: 4,
        duration: 30,
      },
      { at: NOON + 500, method: "PUT", requestBytes: 9, responseBytes: 4, durationMs: 30 },
    ],
    [
      "nginx's, which is written at the end, with all numbers as text",
      {
        time_iso8601: "2026-07-28T14:00:01+02:00",
        request: "GET /y HTTP/1.1",
        body_bytes_sent: "77",
        request_time: "0.250",
      },
      { at: NOON + 750, method: "GET", requestBytes: 0, responseBytes: 77, durationMs: 250 },
    ],
    [
      "pino's",
      {
        time: NOON + 40,
        req: { method: "GET", url: "/z" },
        res: { headers: { "content-length": "12" } },
        responseTime: 40,
      },
      { at: NOON, method: "GET", responseBytes: 12, durationMs: 40 },
    ],
    [
      "the Elastic Common Schema, nested or with dots",
      {
        "@timestamp": "2026-07-28T12:00:00.002Z",
        http: { request: { method: "GET", body: { bytes: 3 } } },
        "http.response.body.bytes": 5,
        event: { duration: 2_000_000 },
      },
      { at: NOON, requestBytes: 3, responseBytes: 5, durationMs: 2 },
    ],
  ])("%s", (_, value, expected) => {
    const { wrong, line } = read("json", JSON.stringify(value));
    expect(wrong).toBe("");
    expect(requestOf(line, [], 1)).toMatchObject(expected);
  });

  it.each([
    [NOON / 1000, true],
    [NOON / 1000 + 0.25, false],
    [NOON, false],
    [NOON * 1000, false],
    [String(NOON / 1000), true],
    ["2026-07-28 12:00:00", true],
    ["2026-07-28T12:00:00.000000001Z", false],
    ["28/Jul/2026:12:00:00 +0000", true],
  ])("the time %j", (time, coarse) => {
    const { line } = read("json", JSON.stringify({ time, method: "GET" }));
    expect({ ...line.time, ms: Math.floor(line.time.ms / 1000) * 1000 }).toEqual({ ms: NOON, coarse });
  });

  it("supports custom names and units of a duration", () => {
    const text = JSON.stringify({ when: NOON, a: { verb: "GET" }, out: 9, took: 1500, client: { name: "video" } });
    const fields = {
      ...{ time: { name: "when" }, method: { name: "a.verb" }, response_bytes: { name: "out" } },
      ...{ duration: { name: "took", unitMs: 0.001 }, app: { name: "client.name" } },
    };
    const { wrong, line } = read("json", text, fields);
    expect(wrong).toBe("");
    expect(line).toMatchObject({ method: "GET", responseBytes: 9, durationMs: 1.5 });
    expect(requestOf(line, [{ from: "field", name: "app" }], 1)).toMatchObject({ app: "video" });
  });

  it.each([
    ["{", "JSON"],
    ["[1]", "JSON"],
    ["null", "JSON"],
    ['{"method":"GET"}', "time"],
    ['{"time":"soon","method":"GET"}', "time"],
    ['{"time":-5,"method":"GET"}', "time"],
    ['{"time":1785240000}', "method"],
    ['{"time":1785240000,"method":"G T"}', "method"],
    ['{"time":1785240000,"method":{}}', "method"],
    ['{"time":1785240000,"method":"GET","bytes_sent":-1}', "size"],
    ['{"time":1785240000,"method":"GET","bytes_sent":1.5}', "size"],
    ['{"time":1785240000,"method":"GET","bytes_sent":[]}', "size"],
    ['{"time":1785240000,"method":"GET","duration":"long"}', "duration"],
    ['{"time":1785240000,"method":"GET","duration":-1}', "duration"],
  ])("%s is rejected for its %s", (text, about) => {
    expect(read("json", text).wrong).toContain(about);
  });

  it("ignores __proto__", () => {
    const { line } = read("json", `{"time":${NOON},"method":"GET","__proto__":{"app_id":"evil"}}`);
    expect(requestOf(line, [{ from: "field", name: "app" }], 1)).toMatchObject({ app: "default" });
  });
});

describe("the app", () => {
  const { line } = read(
    "json",
    JSON.stringify({ time: NOON, method: "GET", path: "/video/1", user: "ann", team: "x" }),
  );

  it("is determined by the first matching rule; otherwise it is the default app", () => {
    const appBy = (...rules: Parameters<typeof requestOf>[1]) => (requestOf(line, rules, 1) as LoggedRequest).app;
    expect(appBy()).toBe("default");
    expect(appBy({ from: "user" })).toBe("ann");
    expect(appBy({ from: "field", name: "team" })).toBe("x");
    expect(appBy({ from: "field", name: "none" }, { from: "path", prefix: "/photo/", app: "p" })).toBe("default");
    expect(appBy({ from: "path", prefix: "/photo/", app: "p" }, { from: "path", prefix: "/video/", app: "v" })).toBe(
      "v",
    );
    expect(appBy({ from: "constant", app: "all" }, { from: "user" })).toBe("all");
  });

  it("is the default app for a dash", () => {
    const { line: nobody } = read("combined", '1.2.3.4 - - [28/Jul/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1');
    expect(requestOf(nobody, [{ from: "user" }], 1)).toMatchObject({ app: "default" });
  });
});

describe("the format is detected from the first lines", () => {
  const some = [...generateRequests({ requests: 10, seconds: 10, apps: [["default", 1]] })];
  const detected = (lines: string[]) => detectFormat(lines, {});

  it("even if some of them are invalid", () => {
    expect(detected(["garbage", ...some.map((one) => combinedLine(one))])).toBe("combined");
    expect(detected(["{}", ...some.map(envoyLine)])).toBe("envoy");
    expect(detected(["[broken", ...some.map(jsonLine)])).toBe("json");
  });

  it("and unknown if no line is valid", () => {
    expect(detected(["a", "b"])).toBe(undefined);
    expect(detected([])).toBe(undefined);
  });
});
