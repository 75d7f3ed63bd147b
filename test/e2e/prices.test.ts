/** What requests cost on every plane: by the profile of their app or route, in the bytes that it counts, or as the backend states. */
import { Readable } from "node:stream";
import { request } from "undici";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Fixture, startFixture } from "../scenarios/fixture.js";
import { describeEnvoy } from "../support/envoy-binary.js";
import type { PlaneKind } from "../support/planes.js";
import { pause, waitFor } from "../support/wait-for.js";

const QUANTUM = 65_536;
/** nginx also counts the heads of chunks. */
const CHUNK_HEADS = 1_000;

interface Sent {
  path: string;
  method?: "GET" | "PUT";
  /** Quanta of the request body. */
  up?: number;
  /** Quanta of the response body. */
  down?: number;
  /** Neither body has a Content-Length. */
  chunked?: boolean;
  /** Values of X-Cost in the response. */
  cost?: string[];
}

/** With the tokens that the request costs. */
const CASES: [name: string, sent: Sent, tokens: number][] = [
  ["both bodies by default", { path: "/", method: "PUT", up: 2, down: 3 }, 5 + 5],
  ["the request only", { path: "/in/", method: "PUT", up: 2, down: 3 }, 5 + 2],
  ["the request only, chunked", { path: "/in/", method: "PUT", up: 2, down: 3, chunked: true }, 5 + 2],
  ["the response only", { path: "/out/", method: "PUT", up: 2, down: 3 }, 5 + 3],
  ["the response only, chunked", { path: "/out/", method: "PUT", up: 2, down: 3, chunked: true }, 5 + 3],
  ["no bytes, and the base of the route", { path: "/flat/", down: 3 }, 7],
  ["what the backend states", { path: "/stated/", down: 1, cost: ["40"] }, 40],
  ["what the backend states, less than estimated", { path: "/stated/", method: "PUT", up: 9, cost: ["3"] }, 3],
  [
    "what the backend states, chunked",
    { path: "/stated/", method: "PUT", up: 2, down: 2, chunked: true, cost: ["40"] },
    40,
  ],
  ["nothing, if the backend states 0", { path: "/stated/", down: 1, cost: ["0"] }, 0],
  ["what the backend states, where bytes are free", { path: "/stated/free/", down: 1, cost: ["12"] }, 12],
  ["bytes, if the backend states more than the maximum", { path: "/stated/free/", down: 1, cost: ["101"] }, 1],
  ["bytes, without a stated cost", { path: "/stated/", down: 1 }, 2],
  ["bytes, if the header is not configured", { path: "/", down: 1, cost: ["40"] }, 2],
  ...["-5", "1e3", "2.5", "NaN", "0x10", "", "99999999", "9".repeat(1_000), "40, 40"].map(
    (cost): [string, Sent, number] => [
      `bytes, if the backend states ${cost.slice(0, 12)}`,
      { path: "/stated/", down: 1, cost: [cost] },
      2,
    ],
  ),
  ["bytes, if the backend states two costs", { path: "/stated/", down: 1, cost: ["40", "50"] }, 2],
  ["bytes, if the backend states a cost twice", { path: "/stated/", down: 1, cost: ["40", "40"] }, 2],
];

const ROUTES = [
  "/in/, profile: { bytes: request }",
  "/out/, profile: { bytes: response }",
  "/flat/, profile: { bandwidth: 0, base: { GET: 7 } }",
  "/stated/, cost_header: X-Cost",
  "/stated/free/, cost_header: x-cost, profile: { bandwidth: 0, max_cost: 100 }",
];

/** Each case has its own app, whose tokens are counted. */
const appOf = (i: number) => `case-${i}`;
const APP = "{ guaranteed: 100000, burst: 100000, on_store_failure: closed }";
const apps = CASES.map((_, i) => `${appOf(i)}: ${APP}`).join(", ");

const chunks = (quanta: number) => Readable.from(Array.from({ length: quanta }, () => Buffer.alloc(QUANTUM)));

async function sendOnce(url: string, app: string, sent: Sent) {
  const { path, method = "GET", up = 0, down = 0, chunked = false, cost = [] } = sent;
  const body = up === 0 ? null : chunked ? chunks(up) : Buffer.alloc(up * QUANTUM);
  const query = `?bytes=${Math.max(down * QUANTUM - CHUNK_HEADS, 0)}${chunked ? "&chunked" : ""}${cost.map((one) => `&cost=${encodeURIComponent(one)}`).join("")}`;
  const reply = await request(`${url}${path}${query}`, { method, headers: { "x-app-id": app }, body });
  await reply.body.dump({ limit: 10_000_000 });
  return reply;
}

/** On a busy machine the store can seem slow for a while. Then requests get 503, which costs nothing, and are repeated. */
async function send(url: string, app: string, sent: Sent) {
  let reply = await sendOnce(url, app, sent);
  while (reply.statusCode === 503) {
    await pause(50);
    reply = await sendOnce(url, app, sent);
  }
  return reply;
}

function pricesOn(kind: PlaneKind): void {
  let fixture: Fixture;
  beforeAll(async () => {
    const yaml = "lease: { report_interval_ms: 100, timeout_ms: 5000 }\n";
    fixture = await startFixture(kind, { apps, yaml, paths: ROUTES, instances: 1, workers: 1 });
  });
  afterAll(() => fixture?.stop());

  it.each(CASES.map(([name, sent, tokens], i) => ({ name, sent, tokens, app: appOf(i) })))(
    `${kind} charges $name: $tokens tokens`,
    async ({ sent, tokens, app }) => {
      const { url } = fixture.plane.instances[0]!;
      const { statusCode, headers } = await send(url, app, sent);
      expect(statusCode).toBe(200);
      expect(headers["x-cost"]).toEqual(sent.path.startsWith("/stated/") ? undefined : sent.cost?.[0]);
      // So that something is charged in any case.
      await send(url, app, { path: "/flat/" });
      await waitFor(`${tokens} tokens to be charged`, async () => {
        const limits = { id: app, guaranteed: 100_000, burst: 100_000, priority: 2, borrow: false };
        const { spent } = await fixture.quota.inspect(limits);
        return spent === tokens + 7;
      });
    },
  );
}

pricesOn("node");
pricesOn("nginx");
describeEnvoy("on Envoy", () => pricesOn("envoy"));
