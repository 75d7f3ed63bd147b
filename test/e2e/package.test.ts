/** The npm package, unpacked into an empty project: what it contains, its library, and its command. */
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, readdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createProject } from "../support/packed-project.js";
import { freePort } from "../support/ports.js";
import { waitFor } from "../support/wait-for.js";

const project = createProject();
const { installed, run } = project;
let manifest: ReturnType<typeof project.install>;
beforeAll(() => {
  manifest = project.install("tollgate", "");
  for (const name of ["ioredis", "express", "@types/express"]) project.link(name);
});
afterAll(project.remove);

test("contains the JavaScript and the Lua of dist, and no other folder", () => {
  const names = readdirSync(installed("tollgate"), { recursive: true, encoding: "utf8" });
  expect(readdirSync(installed("tollgate")).sort()).toEqual(["LICENSE", "README.md", "dist", "package.json"]);
  const expected = [
    "dist/library/esm/index.js",
    "dist/library/cjs/index.js",
    "dist/lua/nginx/tollgate.lua",
    "dist/lua/envoy/tollgate.lua",
  ];
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
    for (let i = 0; i < 3; i++) allowed.push((await limiter.check({ app: "default" })).allowed);
    await limiter.close();
    clearInterval(running);
    console.log(JSON.stringify(allowed));`;
  expect(JSON.parse(run("--input-type=module", "-e", program))).toEqual([true, true, false]);
});

test("the command runs", () => {
  for (const name of Object.keys(manifest.dependencies!)) if (name !== "ioredis") project.link(name);
  const command = installed(join("tollgate", manifest.bin!.tollgate!));
  expect(run(command, "--help")).toContain("tollgate serve");
  expect(run(command, "scripts")).toContain("grant");
});

test("npx tollgate serve runs the demo", async () => {
  mkdirSync(installed(".bin"), { recursive: true });
  const command = join("tollgate", manifest.bin!.tollgate!);
  symlinkSync(join("..", command), installed(".bin/tollgate"));
  execFileSync("chmod", ["+x", installed(command)]);
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
  const child = spawn("npx", args, { cwd: project.folder, stdio: ["ignore", "pipe", "pipe"], env, detached: true });
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
        cwd: project.folder,
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
  ["node16", "node16", "program.cts"],
  ["nodenext", "nodenext", "program.mts"],
])("types resolve with module %s and moduleResolution %s in %s", (module, moduleResolution, file) => {
  project.write(
    file,
    `
    import { createLimiter, limit, type Result } from "tollgate";
    import { limit as expressLimit } from "tollgate/express";
    import type { Express } from "express";
    export async function main(app: Express) {
      const limiter = await createLimiter({ apps: { red: { guaranteed: 1 } } });
      const made: Result | Promise<Result> = limiter.check({ app: "red" });
      limit({ limiter, app: (request) => request.headers.host });
      app.use(expressLimit({ limiter, app: (request) => request.get("x-app") }));
      void made;
      // @ts-expect-error: not an option
      await createLimiter({ apps: { red: { guaranteed: 1, brust: 2 } } });
    }`,
  );
  project.compile("--noEmit", "--module", module, "--moduleResolution", moduleResolution, file);
});
