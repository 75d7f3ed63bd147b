/** The library in one file, as bundlers write it: it runs without the package's files, from any folder. */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { build } from "esbuild";
import { afterAll, beforeAll, expect, it } from "vitest";
import { fromRoot } from "../../../build/paths.js";
import { loadLibrary } from "../../../src/store/function-library.js";
import { type RedisServer, startRedis } from "../../support/redis-server.js";

const run = promisify(execFile);

const ENTRY = `
import { createLimiter, limit } from ${JSON.stringify(fromRoot("dist/library/esm/index.js"))};
async function main() {
  // A limiter alone does not keep the process running.
  const running = setInterval(() => {}, 1000);
  const codes = [];
  for (const store of ["embedded", process.env.REDIS_URL]) {
    const limiter = await createLimiter({ store, apps: { app: { guaranteed: 1, burst: 2 } } });
    limit({ limiter, app: () => "app" });
    for (let i = 0; i < 3; i++) codes.push((await limiter.take("app", 1)).code);
    await limiter.close();
  }
  clearInterval(running);
  console.log(codes.join(" "));
}
main();
`;

let redis: RedisServer;
let dir: string;
beforeAll(async () => {
  redis = await startRedis();
  dir = mkdtempSync(join(tmpdir(), "tollgate-bundle-"));
  writeFileSync(join(dir, "entry.js"), ENTRY);
});
afterAll(async () => {
  rmSync(dir, { recursive: true, force: true });
  await redis.stop();
});

it.each(["cjs", "esm"] as const)(
  "a bundle (%s) of the library decides with the embedded store and with Redis",
  async (format) => {
    const folder = join(dir, format);
    mkdirSync(folder);
    const outfile = join(folder, format === "cjs" ? "bundle.cjs" : "bundle.mjs");
    const banner = `import { createRequire } from "node:module"; const require = createRequire(import.meta.url);`;
    await build({
      entryPoints: [join(dir, "entry.js")],
      bundle: true,
      platform: "node",
      format,
      outfile,
      logLevel: "error",
      // Dependencies in CommonJS call require().
      ...(format === "esm" ? { banner: { js: banner } } : {}),
    });
    await redis.command("FLUSHALL");
    await redis.command("FUNCTION", "FLUSH");
    const { stdout } = await run(process.execPath, [outfile], { cwd: folder, env: { REDIS_URL: redis.url } });
    expect(stdout.trim()).toBe("ok ok quota_exhausted ok ok quota_exhausted");
    expect(JSON.stringify(await redis.command("FUNCTION", "LIST"))).toContain(loadLibrary().name);
  },
);
