/** Paths and hosts are read alike in Node and in LuaJIT, byte by byte. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { luaBundle } from "../../build/lua-bundle.js";
import * as hosts from "../../src/core/host.js";
import * as paths from "../../src/core/path.js";
import { isPlainPath } from "../../src/core/platform.js";
import { pathSpellings } from "../support/path-spellings.js";
import { createRandom } from "../support/random.js";
import { runLuajit } from "./core-runtimes.js";

const random = createRandom(11);
const bytes = () => Array.from({ length: 1 + Math.floor(random() * 8) }, () => Math.floor(random() * 256));
const TARGETS = [
  ...pathSpellings(3, 2_500),
  ...Array.from({ length: 256 }, (_, code) => `/a${String.fromCharCode(code)}b`),
  ...Array.from({ length: 256 }, (_, code) => `/a%${code.toString(16).padStart(2, "0")}b`),
  ...Array.from({ length: 500 }, () => `/${String.fromCharCode(...bytes())}`),
  ...["", "/", `/${"a/".repeat(4_000)}`, `/${"%41".repeat(4_000)}`, `/${"../".repeat(2_000)}x`],
];
const HOSTS = ["a", "A.b.", "a.b.:80", "[::1]:80", "[::1]", "", ".", ":80", "a:", "a..", "X.Y:1:2"];

const RULES = [
  { strict: false, keepsEncodedSlashes: false },
  { strict: false, keepsEncodedSlashes: true },
  { strict: true, keepsEncodedSlashes: false },
];

function inNode(target: string): string {
  const path = paths.pathOf(target);
  const read = [paths.canonicalPath(target), paths.forwardedPath(path), paths.pathValue(target)];
  const accepted = RULES.map((rules) => (paths.isAcceptedPath(path, rules) ? "y" : "n")).join("");
  return [...read, ...paths.pathReadings(target), accepted, isPlainPath(path) ? "y" : "n"].join(" ");
}

const GLUE = `
for _, target in ipairs(targets) do
  local path = paths.pathOf(target)
  local words = { paths.canonicalPath(target), paths.forwardedPath(path), paths.pathValue(target) }
  for _, reading in ipairs(paths.pathReadings(target)) do words[#words + 1] = reading end
  local accepted = ""
  for _, rules in ipairs(rulesets) do accepted = accepted .. (paths.isAcceptedPath(path, rules) and "y" or "n") end
  words[#words + 1] = accepted
  words[#words + 1] = platform.isPlainPath(path) and "y" or "n"
  io.write(table.concat(words, " "), "\\1\\n")
end
for _, host in ipairs(hosts) do io.write(hostNames.hostName(host), "\\1\\n") end`;

const luaText = (text: string) =>
  `"${[...Buffer.from(text, "latin1")].map((byte) => `\\${String(byte).padStart(3, "0")}`).join("")}"`;
const luaList = (texts: string[]) => `{ ${texts.map(luaText).join(", ")} }`;
const loaded = (entry: string) => `(function(...)\n${luaBundle({ entry, target: "JIT" })}\nend)()`;

it("all spellings of paths and hosts have the same form in Node and in LuaJIT", () => {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-paths-"));
  try {
    const file = join(folder, "paths.lua");
    const rulesets = RULES.map(
      (rules) => `{ strict = ${rules.strict}, keepsEncodedSlashes = ${rules.keepsEncodedSlashes} }`,
    );
    writeFileSync(
      file,
      `local paths = ${loaded("src/core/path.ts")}
local hostNames = ${loaded("src/core/host.ts")}
local platform = ${loaded("src/core/platform-lua.ts")}
local targets = ${luaList(TARGETS)}
local hosts = ${luaList(HOSTS)}
local rulesets = { ${rulesets.join(", ")} }
${GLUE}`,
    );
    const lines = runLuajit([file]).toString("latin1").split("\x01\n").slice(0, -1);
    expect(lines).toEqual([...TARGETS.map(inNode), ...HOSTS.map(hosts.hostName)]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
