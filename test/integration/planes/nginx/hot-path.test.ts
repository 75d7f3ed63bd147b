/** What nginx does for each request: the headers of a decision as they must be, by compiled code that leaves no garbage. */
import { Pool } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startGateway, startSmallBackend } from "../../../support/gateway-process.js";
import { luaNumbers, probed } from "../../../support/lua-probe.js";
import { type NginxProcess, startNginx } from "../../../support/nginx-process.js";
import { waitFor } from "../../../support/wait-for.js";

/** Around every length that a number can have, and beyond those that are written without Lua's help. */
const LIMITS = [1, 9, 10, 99, 100, 1_000, 12_345, 999_999, 1_000_000, 123_456_789, 999_999_999, 1_000_000_000];
const RATE = 7;

const endings: (() => unknown)[] = [];
let nginx: NginxProcess;
let pool: Pool;

beforeAll(async () => {
  const backend = await startSmallBackend();
  endings.push(() => backend.stop());
  const apps = LIMITS.map((limit) => `  limit-${limit}: { guaranteed: ${RATE}, burst: ${limit} }\n`);
  const yaml = `
log: { level: error }
cluster: { capacity: 1000000000, rate: 1000000 }
apps:
  busy: { guaranteed: 1000000, burst: 1000000 }
  trial: { guaranteed: 1000, burst: 1000, dry_run: true }
${apps.join("")}
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
`;
  const service = await startGateway(`workers: 1\nnode_id: service\n${yaml}`);
  endings.push(() => service.stop());
  const services = [service.controlUrl.replace("http://", "")];
  nginx = await startNginx(yaml, { services, workers: 1, edit: probed });
  endings.push(() => nginx.stop());
  pool = new Pool(nginx.url, { connections: 8 });
  endings.push(() => pool.close());
  await waitFor("tokens", async () => (await ask("busy")).status === 200);
}, 90_000);

afterAll(async () => {
  for (const end of endings.splice(0).reverse()) await end();
}, 60_000);

async function ask(app: string): Promise<{ status: number; names: string[]; headers: Record<string, string> }> {
  const { statusCode, headers, body } = await pool.request({
    path: "/",
    method: "GET",
    headers: { "x-app-id": app },
    responseHeaders: "raw",
  });
  await body.dump();
  const flat = (headers as unknown as Buffer[]).map(String);
  const names = flat.filter((_, i) => i % 2 === 0);
  const pairs = names.map((name, i): [string, string] => [name, flat[2 * i + 1]!]);
  return { status: statusCode, names, headers: Object.fromEntries(pairs) };
}

const OWN = ["X-RateLimit-Cost", "X-RateLimit-Limit", "X-RateLimit-Remaining", "RateLimit-Policy", "RateLimit"];

describe("headers of a decision", () => {
  it.each(LIMITS)("are right for a limit of %i", async (limit) => {
    const app = `limit-${limit}`;
    const { names, headers } = await ask(app);
    expect(names.filter((name) => /ratelimit/i.test(name))).toEqual(OWN);
    const remaining = Number(headers["X-RateLimit-Remaining"]);
    expect(remaining).toBeLessThanOrEqual(limit);
    expect(headers).toMatchObject({
      "X-RateLimit-Cost": expect.stringMatching(/^[12]$/),
      "X-RateLimit-Limit": String(limit),
      "X-RateLimit-Remaining": String(remaining),
      "RateLimit-Policy": `"${app}";q=${limit};w=${Math.ceil(limit / RATE)}`,
      RateLimit: `"${app}";r=${remaining};t=${Math.ceil((limit - remaining) / RATE)}`,
    });
  });

  it("say of a dry run that it is one", async () => {
    const { headers } = await ask("trial");
    expect(headers["X-RateLimit-Dry-Run"]).toBe("pass");
    expect(headers["X-RateLimit-Limit"]).toBe("1000");
  });
});

async function send(requests: number): Promise<void> {
  const each = async () => {
    for (let i = 0; i < requests / 8; i++) await ask("busy");
  };
  await Promise.all(Array.from({ length: 8 }, each));
}

/** That much of Lua's memory nginx takes for empty handlers, too … */
const BYTES_OF_HANDLERS = 48;
/** … and that much an address takes, of which LuaJIT keeps one or two, depending on what it happened to compile first. */
const BYTES_OF_ADDRESS = 24;

it("once it is warm, a request runs compiled and leaves next to no garbage", async () => {
  const requests = 1_000;
  let [bytes, left] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  // While it gets warm, what is compiled takes memory, too.
  for (let turn = 0; turn < 12 && (bytes > BYTES_OF_HANDLERS + 2 * BYTES_OF_ADDRESS + 1 || left > 0.02); turn++) {
    const before = await luaNumbers(nginx);
    await send(requests);
    const after = await luaNumbers(nginx);
    bytes = (after.bytes - before.bytes) / requests;
    left = (after.exits + after.aborts - before.exits - before.aborts) / requests;
  }
  expect(bytes).toBeLessThanOrEqual(BYTES_OF_HANDLERS + 2 * BYTES_OF_ADDRESS + 1);
  expect(left).toBeLessThanOrEqual(0.02);
}, 60_000);
