/** Node, LuaJIT and Redis give the same results for fixed vectors, unusual inputs and generated histories. */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it, test } from "vitest";
import { fromRoot } from "../../build/paths.js";
import { portableProgram } from "../../build/portable-program.js";
import { brokenRules } from "../../build/portable-rules.js";
import { HISTORIES_PER_RUN, histories } from "./core-histories.js";
import { type Runtimes, runLuajit, startRuntimes } from "./core-runtimes.js";

let runtimes: Runtimes;
beforeAll(async () => {
  runtimes = await startRuntimes();
});
afterAll(() => runtimes?.stop());

/** Runs the lines in every runtime. The answers must be equal, and every line must be a known command. */
async function expectAgreement(lines: string[]): Promise<string[]> {
  const [node, luajit, redis] = await Promise.all([
    runtimes.node.run(lines),
    runtimes.luajit.run(lines),
    runtimes.redis.run(lines),
  ]);
  expect(node).toHaveLength(lines.length);
  expect(node.filter((answer) => answer.startsWith("no such command"))).toEqual([]);
  expect(luajit).toEqual(node);
  expect(redis).toEqual(node);
  return node;
}

describe.each(["node", "luajit", "redis"] as const)("%s", (name) => {
  test.each([
    ["GET of 1,024 bytes costs 2", "price standard GET 1024", "2"],
    ["PUT of 1 MiB costs 21", "price standard PUT 1048576", "21"],
    ["GET of nothing costs 1", "price standard GET 0", "1"],
    ["PUT of 1 GiB costs 16,389", "price standard PUT 1073741824", "16389"],
    ["PUT of 1 GiB costs the maximum of 1,000,000 by bandwidth", "price bandwidth PUT 1073741824", "1000000"],
    ["a negative size has no price", "price standard GET -5", "-1"],
    ["a fraction of a byte has no price", "price standard GET 0.5", "-1"],
    ["NaN bytes have no price", "price standard GET nan", "-1"],
    ["infinitely many bytes have no price", "price standard GET inf", "-1"],
    ["more than 2^53 bytes have no price", "price standard GET 9007199254740994", "-1"],
  ])(`in ${name}, %s`, async (_promise, line, cost) => {
    expect(await runtimes[name].run([line])).toEqual([cost]);
  });
});

describe("the platform", () => {
  const odd = [
    ["", " ", " 5", "5 ", "\t5", "5\n", "+5", "-5", "-0", "--5", "5", "007", "0x10", "-0x10", "0x1p4", "0b1", "0o7"],
    ["1e3", "1E3", "1e", "e3", "1e+", "1e+3", "1e-7", "1.", ".5", "1.5", "1.5.5", "1e999", "-1e999", "1e-999", "5-5"],
    ["nan", "NaN", "-nan", "inf", "-inf", "Infinity", "infinity", "nil", "null", "true", "undefined"],
    ["1234567890123456", "9007199254740993", "12345678901234567", "1".repeat(400), "0.1", `0.${"3".repeat(60)}`],
    ["１２", "٣", "½", "5\u00a0", "\u00a05", "\ufeff5", "ü", "日本", "🚦", "a\u0301"],
    ["\0", "5\0", "5\x006", "\x005", "a\0b", "a b", "a\r\nb", "a{b}", "a/b", "a@b", "a,b", "%d", "[%w]", "^a$"],
    ["a", "A.z_0:9-", "__proto__", "constructor", "toString", "x".repeat(128), "x".repeat(129), "x".repeat(1000000)],
  ].flat();
  const character = fc.constantFrom(..."0123456789.e+-xX \t\nEpnaif\0_:,ü１");
  const anyText = fc.oneof(fc.string({ unit: character, maxLength: 20 }), fc.string({ maxLength: 140 }));
  const many = <T>(one: fc.Arbitrary<T>) => fc.array(one, { minLength: 200, maxLength: 200 });

  it("parses and rejects unusual texts the same in node, luajit and redis", async () => {
    await expectAgreement(odd.map((text) => `platform ${text}`));
    await expectAgreement([...odd.map((text) => `wholes x;7;${text};8`), "wholes x", `wholes ${odd.join(";")}`]);
  });

  it("parses and rejects generated texts the same in node, luajit and redis", async () => {
    const run = fc.asyncProperty(many(anyText), async (texts) => {
      await expectAgreement([...texts.map((text) => `platform ${text}`), `wholes ${texts.join(";")}`]);
    });
    await fc.assert(run, { numRuns: 20 });
  });

  it("parses stored numbers the same in node, luajit and redis", async () => {
    const number = fc.double({ noNaN: true, noDefaultInfinity: true });
    const written = fc.oneof(
      number.map((value) => String(value)),
      number.map((value) => value.toExponential(16)),
      fc.maxSafeInteger().map((value) => String(value)),
    );
    const run = fc.asyncProperty(many(written), async (texts) => {
      await expectAgreement(texts.map((text) => `stored ${text}`));
    });
    await fc.assert(run, { numRuns: 20 });
    const noNumbers = [
      "",
      "nan",
      "NaN",
      "inf",
      "-inf",
      "Infinity",
      "1e999",
      "-1e999",
      "1.5.5",
      "e3",
      "1e+",
      "5-5",
      "ok",
    ];
    const none = await expectAgreement([...noNumbers, "__proto__", "quota_exhausted"].map((text) => `stored ${text}`));
    expect(new Set(none)).toEqual(new Set(["-1p-1 1p-2"]));
  });

  it("splits texts at any separator the same in node, luajit and redis", async () => {
    const text = "a.b^c$d%e-f[g]h(i)j*k+l?m,n|o\0p";
    const lines = [..."^$%.-[]()*+?,|\0bü"].flatMap((by) =>
      [text, "", by, by + by, `x${by}`].map((each) => `split ${by} ${each}`),
    );
    const node = await expectAgreement(lines);
    expect(node[lines.indexOf("split , a.b^c$d%e-f[g]h(i)j*k+l?m,n|o\0p")]).toMatch(/^2 a\.b.* \| n/);
  });

  it("formats whole numbers the same in node, luajit and redis, alone and in a list, including minus zero", async () => {
    const numbers = ["0", "-0", "1", "-1", "1e+15", "99999999999999", "100000000000000", "-100000000000000"];
    const all = [...numbers, "9007199254740991", "9007199254740992", "-9007199254740992"];
    const lines = [...all.map((value) => `whole-text ${value}`), `join ok ${all.join(" ")} x`];
    const node = await expectAgreement(lines);
    expect(node.slice(0, 2)).toEqual(["0", "0"]);
    expect(node.at(-1)).toBe(`join|ok|${node.slice(0, -1).join("|")}|x`);
  });
});

describe("refusals and response headers", () => {
  const gatewayError = "gateway-error upstream_timeout";
  const fraction = "connection RATE_LIMITED app 1200 0.5 10 0 0 0.05";
  const refused = "decision quota_exhausted no no yes yes app 5 0 1000 7 1500";
  const table = [
    refused,
    "decision ok yes no yes no app 1 999 1000 100 0",
    "decision ok yes no no yes app 1 999 1000 0.001 0",
    "decision ok yes yes no no app 1 999 1000 100 0",
    "decision quota_exhausted yes yes yes yes app 1 0 1000000000 1000000 4000",
    "decision cost_exceeds_capacity no no yes yes app 16389 10 10 3 0",
    "decision store_unavailable no no yes yes app 1 0 1000 100 1000",
    "decision unknown_app no no yes yes  0 0 0 0 0",
    "decision invalid_identity no no yes yes  0 0 0 0 0",
    ...["LIMIT_EXCEEDED", "TOTAL_LIMIT_EXCEEDED", "APP_LIMIT_EXCEEDED", "store_unavailable", "no_connections"].flatMap(
      (code) => [0, 0.25, 0.999].map((random) => `connection ${code} app 0 ${random} 10 20 30 5`),
    ),
    fraction,
    gatewayError,
  ];

  it("are the same in node, luajit and redis", async () => {
    const node = await expectAgreement(table);
    expect(node[table.indexOf(refused)]).toBe(
      'X-RateLimit-Cost: 5; X-RateLimit-Limit: 1000; X-RateLimit-Remaining: 0; RateLimit-Policy: "app";q=1000;w=143;qu="tokens"; RateLimit: "app";r=0;t=143; Retry-After: 2 / ' +
        '429 2 {"error":"rate_limit_exceeded","reason":"quota_exhausted","app_id":"app","retry_after":2,"remaining":0,"limit":1000}\n',
    );
    expect(node[table.indexOf(fraction)]).toBe(
      '429 3 {"error":"rate_limit_exceeded","reason":"RATE_LIMITED","app_id":"app","retry_after":3,"remaining":0,"limit":0.050}\n',
    );
    expect(node[table.indexOf(gatewayError)]).toBe('504 0 {"error":"gateway_timeout","reason":"upstream_timeout"}\n');
  });

  it("are the same in node, luajit and redis for any numbers", async () => {
    const number = fc.integer({ min: 0, max: 1_000_000_000 });
    const line = fc
      .tuple(fc.constantFrom("ok", "quota_exhausted"), fc.boolean(), number, number, number, number, number)
      .map(([code, dry, cost, remaining, limit, rate, retry]) => {
        const flags = [code === "ok" || dry ? "yes" : "no", dry ? "yes" : "no", "yes", "yes"].join(" ");
        return `decision ${code} ${flags} app ${cost} ${Math.min(remaining, limit)} ${limit} ${rate / 1000} ${retry}`;
      });
    const run = fc.asyncProperty(fc.array(line, { minLength: 200, maxLength: 200 }), async (lines) => {
      await expectAgreement(lines);
    });
    await fc.assert(run, { numRuns: 10 });
  });
});

describe("generated histories", () => {
  it("give the same results in node, luajit and redis, to the last digit", async () => {
    await fc.assert(
      fc.asyncProperty(histories, async (lines) => {
        await expectAgreement(lines);
      }),
      { numRuns: 800 / HISTORIES_PER_RUN },
    );
  });
});

describe("the core for data planes", () => {
  it("can be used from hand-written Lua, with a plain table as a cell", () => {
    const output = runLuajit([fromRoot("test/contract/core-by-hand.lua"), fromRoot("dist/lua/jit/core.lua")]);
    expect(output.toString().trimEnd().split("\n")).toEqual([
      "21",
      "1000000",
      "-1",
      "9\t-1\t9",
      "30\t20\t0\t11\t131",
      "true\tfalse\tfalse",
      "10\t0\t20",
    ]);
  });
});

describe("the conformance program", () => {
  it.each([
    "core-program.ts",
    "core-platform-program.ts",
    "core-refusal-program.ts",
    "core-lease-program.ts",
    "core-text.ts",
  ])("follows the rules of portable code: %s", (name) => {
    const path = fromRoot(`test/contract/${name}`);
    const program = portableProgram([path]);
    const file = program.getSourceFile(path);
    expect(file === undefined ? ["no such file"] : brokenRules(file, program.getTypeChecker())).toEqual([]);
  });
});
