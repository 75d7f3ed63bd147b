/** The rules of limits decide alike in Node and in LuaJIT, with the options that the Lua planes get. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { luaBundle } from "../../build/lua-bundle.js";
import { readConfig } from "../../src/config/load.js";
import { limitRules } from "../../src/config/options/limiter.js";
import { envoyOptions } from "../../src/config/options/planes.js";
import { type MatchedLimits, matchLimits } from "../../src/limit-rules/limit-rules.js";
import { type LuaData, luaTable } from "../../src/render/lua-table.js";
import { createRandom } from "../support/random.js";
import { runLuajit } from "./core-runtimes.js";

const YAML = `
apps: { shop: {}, free: {} }
upstreams: { b: { targets: ["127.0.0.1:1"] } }
routes:
  - { path: /, upstream: b }
  - { path: /routed/, upstream: b, limits: [named] }
  - { host: example.com, path: /api, upstream: b }
limits:
  - { name: user, key: [user], rate: 10/s }
  - { name: ip, key: [ip], rate: 5/min, ipv4_prefix: 24, allow: [198.51.100.0/24], deny: [203.0.113.0/24, "2001:db8:bad::/48"] }
  - { name: pair, key: [app, "header:X-Team"], rate: 1/h }
  - { name: ignoring, key: ["header:X-Team"], rate: 1/h, invalid_values: ignore, deny: [Zürich] }
  - { name: matched, key: [method, host, path], rate: 1/h, match: { path: ["/a*z", /login], method: [GET, POST], app: [shop] } }
  - { name: cased, key: [path], rate: 1/h, path_case: insensitive, match: { path: [/Login, "*/Edit/", /caf%c3%a9] } }
  - { name: plan, key: [route], rate: 1/h, match: { header: [{ name: X-Plan, value: "für*" }] } }
  - { name: named, key: [], rate: 1/h }
`;

interface Case {
  app: string;
  user: string;
  method: string;
  host: string;
  path: string;
  address: string;
  headers: Record<string, string[]>;
}

const bytes = (text: string) => Buffer.from(text, "utf8").toString("latin1");
const choices = {
  app: ["shop", "free"],
  user: ["ann", "anonymous", "a:b_c", "x".repeat(128)],
  method: ["GET", "POST", "PURGE"],
  host: ["example.com", "EXAMPLE.com:8080", "[::1]:80", "", "other"],
  path: [
    "/",
    "/login?x=1",
    "//login",
    "/%6cogin",
    "/a/b/../z",
    "/routed/x",
    "/./routed/%2e%2e/q",
    "/api/x",
    "/apix",
    "/%zz%",
    "/LOGIN/",
    "/login;x=1",
    "/CAF%C3%a9",
    "/caf\xc3\xa9",
    "/a%2f..%2flogin",
    "/x%5cEDIT",
    "/routed%2fx",
    "/x/..;/login#y",
  ],
  address: [
    "192.0.2.1",
    "192.0.2.77",
    "198.51.100.3",
    "203.0.113.9",
    "2001:db8::1",
    "2001:db8:bad::2",
    "::ffff:192.0.2.5",
    "no",
    "",
  ],
  team: [undefined, ["a"], ["a", "b"], ["x".repeat(2_000)], ["tab\there"], [bytes("Zürich")], [`{}/\\"'`], [""]],
  plan: [undefined, ["free"], [bytes("für immer")], ["a", "b"]],
};

const config = readConfig(YAML, {}).config!;
const random = createRandom(7);
const one = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!;

function randomCase(): Case {
  const headers: Case["headers"] = {};
  const [team, plan] = [one(choices.team), one(choices.plan)];
  if (team !== undefined) headers["x-team"] = team;
  if (plan !== undefined) headers["x-plan"] = plan;
  const { app, user, method, host, path, address } = choices;
  return {
    ...{ app: one(app), user: one(user), method: one(method), host: one(host), path: one(path), address: one(address) },
    headers,
  };
}

function inNode({ headers, ...attributes }: Case): string {
  const found = matchLimits(
    limitRules(config),
    {
      ...attributes,
      headerCount: (name) => headers[name]?.length ?? 0,
      header: (name) => headers[name]![0]!,
    },
    (text) => `d${text.length}`,
  );
  return shown(found);
}

function shown({ invalid, matches }: MatchedLimits): string {
  const invalidName = invalid === "" ? "" : `invalid ${invalid} `;
  return invalidName + matches.map(({ id, denied }) => (denied ? `${id}!` : id)).join(" ");
}

const GLUE = `
for _, case in ipairs(cases) do
  case.headerCount = function(self, name) return #(case.headers[name] or {}) end
  case.header = function(self, name) return case.headers[name][1] end
  local found = program.matchLimits(rules, case, function(text) return "d" .. #text end)
  local words = {}
  for _, match in ipairs(found.matches) do words[#words + 1] = match.id .. (match.denied and "!" or "") end
  print((found.invalid ~= "" and "invalid " .. found.invalid .. " " or "") .. table.concat(words, " "))
end`;

it("the limits of random requests are the same in Node and in LuaJIT", () => {
  const { limits } = envoyOptions(config, { node: "", cluster: "" });
  const cases = Array.from({ length: 3_000 }, randomCase);
  // The renderer writes characters as UTF-8; header values are bytes.
  const text = (value: string) => Buffer.from(value, "latin1").toString("utf8");
  const sent = cases.map((each) => ({
    ...each,
    path: text(each.path),
    headers: Object.fromEntries(Object.entries(each.headers).map(([name, values]) => [name, values.map(text)])),
  }));
  const folder = mkdtempSync(join(tmpdir(), "tollgate-limits-"));
  try {
    const bundle = luaBundle({ entry: "src/limit-rules/limit-rules.ts", target: "JIT" });
    const file = join(folder, "limits.lua");
    writeFileSync(
      file,
      `local program = (function(...)\n${bundle}\nend)()
local rules = ${luaTable(limits as unknown as LuaData)}
local cases = ${luaTable(sent as unknown as LuaData)}
${GLUE}`,
    );
    const lines = runLuajit([file]).toString("latin1").trimEnd().split("\n");
    const expected = cases.map(inNode);
    expect(lines).toEqual(expected);
    for (const { name } of limits.rules) expect(expected.some((line) => line.includes(`limit:${name}:`))).toBe(true);
    expect(expected.some((line) => line.includes("invalid "))).toBe(true);
    expect(expected.some((line) => line.includes("!"))).toBe(true);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
