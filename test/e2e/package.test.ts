/** The npm package, unpacked into an empty project: what it contains, its library, and its command. */
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { fromRoot } from "../../build/paths.js";
import { freePort } from "../support/ports.js";
import { waitFor } from "../support/wait-for.js";

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

test("npx tollgate serve runs the demo", async () => {
  mkdirSync(installed(".bin"), { recursive: true });
  const { bin } = JSON.parse(readFileSync(installed("tollgate/package.json"), "utf8"));
  symlinkSync(join("..", "tollgate", bin.tollgate), installed(".bin/tollgate"));
  execFileSync("chmod", ["+x", installed(join("tollgate", bin.tollgate))]);
  const [port, control] = [await freePort(), await freePort()];
  const args = [
    "--no-install",
    "tollgate",
    "serve",
    "--listen",
    `127.0.0.1:${port}`,
    "--control",
    `127.0.0.1:${control}`,
  ];
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("TOLLGATE_")));
  const child = spawn("npx", args, { cwd: project, stdio: ["ignore", "pipe", "pipe"], env, detached: true });
  let printed = "";
  child.stdout.on("data", (data) => (printed += data));
  child.stderr.on("data", (data) => (printed += data));
  const ended = new Promise((resolve) => child.once("exit", resolve));
  try {
    await waitFor("the greeting", () => {
      if (child.exitCode !== null) throw new Error(printed);
      return printed.includes("Press Ctrl-C to stop.");
    });
    expect((await fetch(`http://127.0.0.1:${port}/api/hello`)).status).toBe(200);
    expect(printed).toContain("npx tollgate why demo");
    const why = execFileSync(
      "npx",
      ["--no-install", "tollgate", "why", "demo", "--url", `http://127.0.0.1:${control}`],
      {
        cwd: project,
        encoding: "utf8",
        env,
      },
    );
    expect(why).toContain("demo");
  } finally {
    process.kill(-child.pid!, "SIGKILL");
    await ended;
  }
});

test.each([
  ["node16", "node16"],
  ["nodenext", "nodenext"],
  ["esnext", "bundler"],
])("types resolve with module %s and moduleResolution %s", (module, moduleResolution) => {
  const program = `
    import { createLimiter, type Decision, limit, limitPlugin, type MiddlewareOptions } from "tollgate";
    import type { IncomingMessage } from "node:http";
    const limiter = await createLimiter({ apps: { red: { guaranteed: 1 } } });
    const made: Decision | Promise<Decision> = limiter.check("red", "GET", 0);
    const options: MiddlewareOptions<IncomingMessage> = { limiter, app: () => "red" };
    limit(options);
    void limitPlugin;
    void made;
    // @ts-expect-error: not an option
    await createLimiter({ apps: { red: { guaranteed: 1, brust: 2 } } });
  `;
  writeFileSync(join(project, "program.mts"), program);
  const tsc = fromRoot("node_modules/typescript/bin/tsc");
  const options = [
    "--noEmit",
    "--strict",
    "--target",
    "es2022",
    "--skipLibCheck",
    "--types",
    "node",
    "--typeRoots",
    fromRoot("node_modules/@types"),
  ];
  run(tsc, ...options, "--module", module, "--moduleResolution", moduleResolution, "program.mts");
});
