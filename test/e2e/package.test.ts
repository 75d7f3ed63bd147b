/** The npm package, unpacked into an empty project: what it contains, its library, and its command. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { fromRoot } from "../../build/paths.js";

let project: string;
let dependencies: string[];
const installed = (path: string) => join(project, "node_modules", path);

// The dependencies are links to those of the repository, so that no network is needed.
beforeAll(() => {
  project = mkdtempSync(join(tmpdir(), "tollgate-package-"));
  mkdirSync(installed("tollgate"), { recursive: true });
  const packed = execFileSync("npm", ["pack", "--ignore-scripts", "--silent", "--pack-destination", project], {
    cwd: fromRoot(""),
    encoding: "utf8",
  });
  const args = ["-xzf", join(project, packed.trim()), "-C", installed("tollgate"), "--strip-components=1"];
  execFileSync("tar", args);
  const manifest = JSON.parse(readFileSync(installed("tollgate/package.json"), "utf8"));
  dependencies = Object.keys(manifest.dependencies);
  link("ioredis");
});
afterAll(() => rmSync(project, { recursive: true, force: true }));

function link(name: string): void {
  symlinkSync(fromRoot(`node_modules/${name}`), installed(name));
}

function run(...args: string[]): string {
  return execFileSync(process.execPath, args, { cwd: project, encoding: "utf8" });
}

test("contains the JavaScript and the Lua of dist, and no other folder", () => {
  const names = readdirSync(installed("tollgate"), { recursive: true, encoding: "utf8" });
  expect(readdirSync(installed("tollgate")).sort()).toEqual(["LICENSE", "README.md", "dist", "package.json"]);
  const expected = ["dist/index.js", "dist/index.d.ts", "dist/lua/nginx/tollgate.lua", "dist/lua/envoy/tollgate.lua"];
  expect(names).toEqual(expect.arrayContaining(expected));
  expect(names.some((name) => name.startsWith("dist/lua/redis/"))).toBe(true);
  expect(names.filter((name) => /\.(js|lua|json|d\.ts)$/.test(name)).length).toBeGreaterThan(100);
  expect(names.filter((name) => /\.(map|tsbuildinfo)$|(?<!\.d)\.ts$|(^|\/)\./.test(name))).toEqual([]);
});

// Only ioredis is there: an import of zod, pino or undici would fail.
test("the library needs no other dependency than ioredis", () => {
  const program = `
    import { createLimiter } from "tollgate";
    const limiter = await createLimiter({ store: "embedded", apps: { default: { guaranteed: 1, burst: 2 } } });
    // The limiter's timers do not keep a process alive; a server would.
    const running = setInterval(() => {}, 1_000);
    const allowed = [];
    for (let i = 0; i < 3; i++) allowed.push((await limiter.check("default", "GET", 0)).allowed);
    await limiter.close();
    clearInterval(running);
    console.log(JSON.stringify(allowed));`;
  expect(JSON.parse(run("--input-type=module", "-e", program))).toEqual([true, true, false]);
});

test("the command runs", () => {
  for (const name of dependencies) if (name !== "ioredis") link(name);
  const { bin } = JSON.parse(readFileSync(installed("tollgate/package.json"), "utf8"));
  const command = installed(join("tollgate", bin.tollgate));
  expect(run(command, "--help")).toContain("tollgate serve");
  expect(run(command, "scripts")).toContain("grant");
});
