/** The same source decides the same in Node, in LuaJIT and in Redis: vectors, odd inputs and generated histories. */
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

/** The same lines give the same answers everywhere, and each is understood. */
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
    ["PUT of 1 GiB costs 1,000,000 by bandwidth, the most there is", "price bandwidth PUT 1073741824", "1000000"],
    ["a negative size has no price", "price standard GET -5", "-1"],
    ["a fraction of a byte has no price", "price standard GET 0.5", "-1"],
    ["NaN bytes have no price", "price standard GET nan", "-1"],
    ["infinitely many bytes have no price", "price standard GET inf", "-1"],
    ["more than 2^53 bytes have no price", "price standard GET 9007199254740994", "-1"],
  ])(`in ${name} a %s`, async (_promise, line, cost) => {
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

  it("reads and refuses odd texts from outside the same in node, luajit and redis", async () => {
    await expectAgreement(odd.map((text) => `platform ${text}`));
    await expectAgreement([...odd.map((text) => `wholes x;7;${text};8`), "wholes x", `wholes ${odd.join(";")}`]);
  });

  it("reads and refuses generated texts from outside the same in node, luajit and redis", async () => {
    const run = fc.asyncProperty(many(anyText), async (texts) => {
      await expectAgreement([...texts.map((text) => `platform ${text}`), `wholes ${texts.join(";")}`]);
    });
    await fc.assert(run, { numRuns: 20 });
  });

  it("reads back what a script stored the same in node, luajit and redis, and nothing that is no number", async () => {
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

  it("takes texts apart at any separator the same in node, luajit and redis", async () => {
    const text = "a.b^c$d%e-f[g]h(i)j*k+l?m,n|o\0p";
    const lines = [..."^$%.-[]()*+?,|\0bü"].flatMap((by) =>
      [text, "", by, by + by, `x${by}`].map((each) => `split ${by} ${each}`),
    );
    const node = await expectAgreement(lines);
    expect(node[lines.indexOf("split , a.b^c$d%e-f[g]h(i)j*k+l?m,n|o\0p")]).toMatch(/^2 a\.b.* \| n/);
  });

  it("writes whole numbers the same in node, luajit and redis, alone and in a list, minus zero included", async () => {
    const numbers = ["0", "-0", "1", "-1", "1e+15", "99999999999999", "100000000000000", "-100000000000000"];
    const all = [...numbers, "9007199254740991", "9007199254740992", "-9007199254740992"];
    const lines = [...all.map((value) => `whole-text ${value}`), `join ok ${all.join(" ")} x`];
    const node = await expectAgreement(lines);
    expect(node.slice(0, 2)).toEqual(["0", "0"]);
    expect(node.at(-1)).toBe(`join|ok|${node.slice(0, -1).join("|")}|x`);
  });
});

describe("generated histories", () => {
  it("give the same answers in node, luajit and redis, to the last digit", async () => {
    await fc.assert(
      fc.asyncProperty(histories, async (lines) => {
        await expectAgreement(lines);
      }),
      { numRuns: 800 / HISTORIES_PER_RUN },
    );
  });
});

describe("the core for data planes", () => {
  it("can be used by hand in luajit, with a plain table as a cell", () => {
    const output = runLuajit([fromRoot("test/contract/core-by-hand.lua"), fromRoot("dist/lua/jit/core.lua")]);
    expect(output.toString().trimEnd().split("\n")).toEqual([
      "21",
      "1000000",
      "-1",
      "9\t-1\t9",
      "30\t20\t0\t11\t211",
      "true\tfalse\tfalse",
      "10\t0\t20",
    ]);
  });
});

describe("the conformance program", () => {
  it.each(["core-program.ts", "core-platform-program.ts", "core-lease-program.ts", "core-text.ts"])(
    "obeys the rules of portable code: %s",
    (name) => {
      const path = fromRoot(`test/contract/${name}`);
      const program = portableProgram([path]);
      const file = program.getSourceFile(path);
      expect(file === undefined ? ["no such file"] : brokenRules(file, program.getTypeChecker())).toEqual([]);
    },
  );
});
