/** The library entry point loads the limiter and the store only, not the dependencies of the service. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const entry = new URL("../../../src/index.ts", import.meta.url).href;

/** Resolve hook in a worker thread; it prints every resolved URL. */
const hook = `data:text/javascript,${encodeURIComponent(`
import { writeSync } from "node:fs";
export async function resolve(specifier, context, next) {
  const resolved = await next(specifier, context);
  writeSync(1, resolved.url + "\\n");
  return resolved;
}`)}`;

async function loadedModules(): Promise<string[]> {
  const script = `
    import { register } from "node:module";
    register(${JSON.stringify(hook)});
    const library = await import(${JSON.stringify(entry)});
    if (typeof library.createLimiter !== "function") throw new Error("createLimiter is missing");
  `;
  const { stdout } = await promisify(execFile)(process.execPath, [
    "--import",
    "tsx",
    "--input-type=module",
    "--eval",
    script,
  ]);
  return stdout.split("\n").filter((line) => line !== "");
}

it("loads no zod, pino or undici, and no code of config, planes or service", async () => {
  const modules = await loadedModules();
  expect(modules.some((url) => url.includes("/src/limiter/"))).toBe(true);
  expect(modules.some((url) => url.includes("/node_modules/ioredis/"))).toBe(true);
  const forbidden = /\/node_modules\/(zod|pino|undici|yaml)\/|\/src\/(config|planes|service|envoy-service|render)\//;
  expect(modules.filter((url) => forbidden.test(url))).toEqual([]);
});
