/** Options and attributes that are undefined have their defaults: in values, and in types with exactOptionalPropertyTypes. */
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import ts from "typescript";
import { afterEach, expect, it } from "vitest";
import { fromRoot } from "../../../build/paths.js";
import { createLimiter, type LibraryLimiter, limit, type MiddlewareOptions } from "../../../src/index.js";

type Attributes = MiddlewareOptions<IncomingMessage>["attributes"];

let limiter: LibraryLimiter | undefined;
let server: Server | undefined;
afterEach(async () => {
  await new Promise((resolve) => (server === undefined ? resolve(0) : server.close(resolve)));
  await limiter?.close();
});

async function statuses(attributes: Attributes): Promise<number[]> {
  limiter = await createLimiter({
    apps: { default: { guaranteed: 1000, burst: 2000 } },
    limits: [
      { name: "per-user", key: ["user"], rate: "2/min" },
      { name: "per-address", key: ["ip"], rate: "100/min" },
    ],
  });
  return statusesOf(limit<IncomingMessage>({ limiter, app: () => "default", attributes, headers: undefined }));
}

/** Of three requests. */
async function statusesOf(middleware: ReturnType<typeof limit<IncomingMessage>>): Promise<number[]> {
  server = createServer((request, response) => {
    middleware(request, response, (error) => {
      response.statusCode = error === undefined ? 200 : 500;
      response.end();
    });
  });
  await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const seen = [];
  for (let i = 0; i < 3; i++) seen.push((await fetch(`http://127.0.0.1:${port}/`)).status);
  return seen;
}

it.each<[string, Attributes]>([
  ["undefined", () => ({ user: undefined, address: undefined, host: undefined, path: undefined })],
  ["null, from JavaScript", (() => ({ user: null, address: null, host: null, path: null })) as unknown as Attributes],
  ["missing", () => ({})],
  ["not returned", () => undefined],
])("attributes that are %s have their defaults: anonymous users share a limit", async (_, attributes) => {
  expect(await statuses(attributes)).toEqual([200, 200, 429]);
});

it.each<[string, string, number[]]>([
  ["is paid by the app default", "default", [200, 200, 429]],
  ["is refused without one", "other", [403, 403, 403]],
])("a request without an app %s", async (_, listed, expected) => {
  limiter = await createLimiter({
    apps: { [listed]: { guaranteed: 1000 } },
    limits: [{ name: "per-app", key: ["app"], rate: "2/min" }],
  });
  expect(await statusesOf(limit<IncomingMessage>({ limiter, app: () => undefined }))).toEqual(expected);
});

it("options that are undefined have their defaults", async () => {
  limiter = await createLimiter({
    apps: { app: { guaranteed: 5, burst: undefined, priority: undefined, profile: undefined, dryRun: undefined } },
    lease: { reserve: undefined, syncIntervalMs: undefined, idleMs: undefined },
    cluster: { id: undefined, capacity: undefined, rate: undefined, shards: undefined },
    limits: [
      { name: "all", rate: "100/s", key: undefined, burst: undefined, match: { path: undefined, app: undefined } },
    ],
    timeoutMs: undefined,
    maxValues: undefined,
    failOpenTokens: undefined,
    store: undefined,
    node: undefined,
    observer: undefined,
  });
  expect(await limiter.take("app", 1)).toMatchObject({ allowed: true, limit: 10, remaining: 9 });
  limiter.reconfigure({ apps: { app: { guaranteed: 10 } }, lease: undefined, cluster: { rate: undefined } });
  expect(await limiter.take("app", 1)).toMatchObject({ allowed: true, limit: 20 });
});

it("the guide's example of limits per user compiles, also with exactOptionalPropertyTypes", () => {
  const guide = readFileSync(fromRoot("docs/guides/library.md"), "utf8");
  const example = /## Limits per user[\s\S]*?```ts\n([\s\S]*?)```/.exec(guide)![1]!;
  expect(example).toContain("user: request.userId");
  const file = fromRoot("test/integration/limiter/guide-example.ts");
  const text = `import { createLimiter, limit } from "tollgate";
import type { IncomingMessage } from "node:http";
interface Request extends IncomingMessage { userId?: string | undefined; ip: string | undefined; }
declare const app: { use(handler: ReturnType<typeof limit<Request>>): void };
${example}`;
  const options: ts.CompilerOptions = {
    ...{ strict: true, exactOptionalPropertyTypes: true, noEmit: true, skipLibCheck: true, types: ["node"] },
    ...{ target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.NodeNext },
    ...{ moduleResolution: ts.ModuleResolutionKind.NodeNext, paths: { tollgate: [fromRoot("src/index.ts")] } },
  };
  const host = ts.createCompilerHost(options);
  const read = host.readFile;
  const exists = host.fileExists;
  host.readFile = (name) => (name === file ? text : read(name));
  host.fileExists = (name) => name === file || exists(name);
  const getSourceFile = host.getSourceFile;
  host.getSourceFile = (name, version, ...rest) =>
    name === file ? ts.createSourceFile(name, text, version) : getSourceFile(name, version, ...rest);
  const program = ts.createProgram([file], options, host);
  const problems = ts.getPreEmitDiagnostics(program, program.getSourceFile(file));
  expect(problems.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, "\n"))).toEqual([]);
});
