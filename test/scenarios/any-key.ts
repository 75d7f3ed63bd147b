/** Limits on any key, as every plane must enforce them. One fixture per plane; what clients saw is compared. */
import { request } from "undici";
import { expect } from "vitest";
import { type GatewayProcess, PLANE_TOKEN, startGateway } from "../support/gateway-process.js";
import { sendRaw, statusOf } from "../support/http-client.js";
import { type Answered, passedOf } from "../support/http-load.js";
import type { PlaneKind } from "../support/planes.js";
import { freePort } from "../support/ports.js";
import { startRedis } from "../support/redis-server.js";
import { pause, waitFor } from "../support/wait-for.js";
import { BY_REQUEST } from "./fixture.js";
import { LIMIT as LAST_TOKENS, ORDERS, worstWindow } from "./leases.js";
import { withFixture } from "./limits.js";

const QUANTUM = 65_536;

/** The first four are the examples that users of other limiters expect. */
const LIMITS = `
lease: { timeout_ms: 5000 }
limits:
  - { name: per-user, key: [user], on_store_failure: closed, rate: 10/s, match: { path: [/user] } }
  - { name: logins, key: [ip], on_store_failure: closed, rate: 5/min, match: { path: [/login], method: [POST] } }
  - { name: searches, key: [app], on_store_failure: closed, rate: 100/min, match: { path: [/search], header: [{ name: X-Plan, value: free }] } }
  - { name: uploads, key: [user], on_store_failure: closed, rate: 800/min, count: cost, match: { path: [/upload], method: [PUT] } }
  - { name: address, key: [ip], on_store_failure: closed, rate: 5/h, match: { path: [/address], method: [POST] } }
  - { name: by-user, key: [user], on_store_failure: closed, rate: 3/h, match: { path: [/both] } }
  - { name: by-ip, key: [ip], on_store_failure: closed, rate: 5/h, match: { path: [/both] } }
  - { name: listed, key: [ip], on_store_failure: closed, rate: 1/h, allow: [198.51.100.0/24], deny: [203.0.113.0/24], match: { path: [/listed] } }
  - { name: tried, key: [user], on_store_failure: closed, rate: 1/h, dry_run: true, match: { path: [/tried] } }
  - { name: team, key: ["header:X-Team"], on_store_failure: closed, rate: 1/h, match: { path: [/team] } }
  - { name: lenient, key: ["header:X-Team"], on_store_failure: closed, rate: 1/h, invalid_values: ignore, match: { path: [/lenient] } }
  - { name: audited, key: ["header:X-Team"], on_store_failure: closed, rate: 2/h, match: { path: [/audited] } }
  - { name: stated, key: [user], on_store_failure: closed, rate: 100/h, count: cost, match: { path: [/stated] } }
  - { name: on-route, key: [route], on_store_failure: closed, rate: 2/h, match: { route: [/routed/] } }
`;

interface Sent {
  path: string;
  method?: "GET" | "POST" | "PUT";
  headers?: Record<string, string | string[]>;
  body?: Buffer;
}

/** What the parts need of a fixture. */
interface Instances {
  plane: { instances: { url: string }[] };
}

interface Seen {
  status: number;
  limit: string;
  headers: Record<string, string | string[] | undefined>;
}

/** On a busy machine the store can seem slow for a while. Then requests get 503, which costs nothing, and are repeated. */
async function send(url: string, sent: Sent): Promise<Seen> {
  let seen = await sendOnce(url, sent);
  while (seen.status === 503) {
    await pause(100);
    seen = await sendOnce(url, sent);
  }
  return seen;
}

/** A URL of Envoy's rate limit service begins with this. */
const RLS = "rls+";

function sendOnce(url: string, sent: Sent): Promise<Seen> {
  return url.startsWith(RLS) ? askService(url.slice(RLS.length), sent) : sendRequest(url, sent);
}

/** Describes the request to the rate limit service, as an Envoy would. */
async function askService(url: string, { path, method = "GET", headers = {}, body }: Sent): Promise<Seen> {
  const { "x-user-id": user = "ann", "x-forwarded-for": ip = "192.0.2.1", ...others } = headers;
  const described = { app: "shop", user, ip, method, path };
  const named = Object.entries(others).map(([name, value]) => [`header:${name}`, value] as const);
  const entries = [...Object.entries(described), ...named].flatMap(([key, value]) =>
    [value].flat().map((one) => ({ key, value: one })),
  );
  const hits = body === undefined ? 1 : 5 + body.length / QUANTUM;
  const reply = await request(`${url}/json`, {
    method: "POST",
    headers: { authorization: `Bearer ${PLANE_TOKEN}` },
    body: JSON.stringify({ domain: "limits", descriptors: [{ entries }], hits_addend: hits }),
  });
  const answer = (await reply.body.json()) as {
    rawBody?: string;
    statuses?: { code: string; currentLimit?: { name: string } }[];
    responseHeadersToAdd?: { key: string; value: string }[];
  };
  const { reason = "" } = JSON.parse(Buffer.from(answer.rawBody ?? "e30=", "base64").toString()) as { reason?: string };
  const status = { denied: 403, invalid_argument: 400 }[reason] ?? reply.statusCode;
  const limit = answer.statuses?.find(({ code }) => code === "OVER_LIMIT")?.currentLimit?.name ?? "";
  const added = answer.responseHeadersToAdd ?? [];
  return { status, limit, headers: Object.fromEntries(added.map(({ key, value }) => [key.toLowerCase(), value])) };
}

async function sendRequest(url: string, { path, method = "GET", headers = {}, body }: Sent): Promise<Seen> {
  const own = { "x-app-id": "shop", "x-user-id": "ann", "x-forwarded-for": "192.0.2.1", ...headers };
  const reply = await request(url + path, { method, headers: own, ...(body && { body }) });
  const text = await reply.body.text();
  const limit = reply.statusCode === 200 ? "" : ((JSON.parse(text) as { limit_name?: string }).limit_name ?? "");
  return { status: reply.statusCode, limit, headers: reply.headers };
}

/** In turn on all instances. Returns the status of each, with the limit that refused it. */
async function sendAll({ plane: { instances } }: Instances, requests: Sent[]): Promise<string[]> {
  const seen: string[] = [];
  for (const [i, one] of requests.entries()) {
    const { status, limit } = await send(instances[i % instances.length]!.url, one);
    seen.push(limit === "" ? String(status) : `${status} ${limit}`);
  }
  return seen;
}

const times = (count: number, one: Sent): Sent[] => Array.from({ length: count }, () => one);
const from = (address: string) => ({ "x-forwarded-for": address });

/** A bucket: what it holds, what it gains, and the lowest and highest cost of a request, which may differ after settlement. */
interface Bucket {
  burst: number;
  perSecond: number;
  costs: [number, number];
}

/** With a shorter time between two tokens, the times that a client sees are too coarse for one number. */
const COARSE_SECONDS = 2;

/**
 * Sends the requests at once, and then more in turn on all instances, until one is refused and exactly as many have passed as
 * the bucket held and gained. On a busy machine, tokens that another instance holds may arrive too late for a request. Waiting
 * for them hides no loss and no excess: the number that must have passed follows the time since the first one.
 */
async function passesExactly({ plane: { instances } }: Instances, requests: Sent[], bucket: Bucket): Promise<void> {
  const { burst, perSecond, costs } = bucket;
  const started = performance.now();
  let [passed, firstAt, turn] = [0, Number.POSITIVE_INFINITY, 0];
  async function play(one: Sent) {
    const sentAt = performance.now();
    const { status } = await send(instances[turn++ % instances.length]!.url, one);
    const at = performance.now();
    if (status === 200) {
      passed++;
      firstAt = Math.min(firstAt, at);
    }
    return { sentAt, at, refused: status === 429 };
  }
  await Promise.all(requests.map(play));
  const allowed = (ms: number, cost: number) => Math.floor((burst + (perSecond * ms) / 1000) / cost);
  const isCoarse = costs[0] / perSecond < COARSE_SECONDS;
  let seen = "";
  const isExact = await waitFor("as many requests to pass as the limit allows", async () => {
    const { sentAt, at, refused } = await play(requests[0]!);
    const [least, most] = [allowed(sentAt - firstAt, costs[1]), allowed(at - started, costs[0])];
    seen = `${passed} passed, of ${least} to ${most} in ${Math.round(at - started)} ms`;
    if (passed > most) return "exceeded";
    return refused && passed >= least && (isCoarse || least === most) ? "exact" : false;
  }).catch((error: unknown) => `${String(error)}: ${seen}`);
  expect(isExact, seen).toBe("exact");
}

/** On a busy machine the store can seem slow at first. */
async function warmUp({ plane: { instances } }: Instances): Promise<void> {
  for (const { url } of instances) {
    let inARow = 0;
    await waitFor("20 requests in a row to pass", async () => {
      inARow = (await send(url, { path: "/" })).status === 200 ? inARow + 1 : 0;
      return inARow >= 20;
    });
  }
}

/** Each part has its own limits, so that all can use one fixture. */
const parts: Record<string, (fixture: Instances) => Promise<unknown>> = {
  "5 logins per minute per address": async (fixture) => {
    const login: Sent = { path: "/login", method: "POST" };
    await passesExactly(fixture, times(12, login), { burst: 5, perSecond: 5 / 60, costs: [1, 1] });
    return sendAll(fixture, [{ ...login, headers: from("192.0.2.99") }]);
  },
  "a forged address changes nothing": async (fixture) => {
    const post = (address: string): Sent => ({ path: "/address", method: "POST", headers: from(address) });
    const same = ["192.0.2.1", "1.1.1.1, 192.0.2.1", "evil, 192.0.2.1", "192.0.2.1, 127.0.0.1", "192.0.2.1:4711"];
    return [
      await sendAll(fixture, [...same, "192.0.2.1", "9.9.9.9,192.0.2.1"].map(post)),
      await sendAll(fixture, [post("192.0.2.2"), post("2001:db8::1"), post("not an address")]),
      await sendAll(fixture, times(1, { path: "/address", headers: from("192.0.2.1") })),
    ];
  },
  "an IPv6 /64 is one address": (fixture) => {
    const post = (host: string): Sent => ({ path: "/address", method: "POST", headers: from(`2001:db8:7:8::${host}`) });
    return sendAll(fixture, ["1", "2", "3", "ffff", "a:b", "c"].map(post));
  },
  "10 per second per user": async (fixture) => {
    await passesExactly(fixture, times(40, { path: "/user" }), { burst: 10, perSecond: 10, costs: [1, 1] });
    return sendAll(fixture, times(3, { path: "/user", headers: { "x-user-id": "bob" } }));
  },
  "100 searches per minute for the free plan": async (fixture) => {
    const search = (plan: string): Sent => ({ path: "/search?q=1", headers: { "x-plan": plan } });
    await passesExactly(fixture, times(130, search("free")), { burst: 100, perSecond: 100 / 60, costs: [1, 1] });
    return sendAll(fixture, times(3, search("paid")));
  },
  "50 MB of uploads per minute per user": async (fixture) => {
    // 5 MiB are 80 quanta and 5 for the method; the response may be one more. So nine uploads fit.
    const body = Buffer.alloc(80 * QUANTUM);
    const upload = (user: string): Sent => ({ path: "/upload", method: "PUT", headers: { "x-user-id": user }, body });
    await passesExactly(fixture, times(14, upload("ann")), { burst: 800, perSecond: 800 / 60, costs: [85, 86] });
    return sendAll(fixture, [upload("bob")]);
  },
  "several limits are taken together or not at all": async (fixture) => [
    await sendAll(fixture, times(6, { path: "/both" })),
    // The refused requests have not used the address.
    await sendAll(fixture, times(3, { path: "/both", headers: { "x-user-id": "bob" } })),
  ],
  "allow and deny": (fixture) =>
    sendAll(fixture, [
      ...times(3, { path: "/listed", headers: from("198.51.100.9") }),
      { path: "/listed", headers: from("203.0.113.9") },
      ...times(2, { path: "/listed", headers: from("192.0.2.9") }),
    ]),
  "a dry run refuses nothing": async (fixture) => {
    const { url } = fixture.plane.instances[0]!;
    await send(url, { path: "/tried" });
    const { status, headers } = await send(url, { path: "/tried" });
    return [status, headers["x-ratelimit-dry-run"]];
  },
  "hostile header values": (fixture) => {
    const team = (path: string, value: string | string[]): Sent => ({ path, headers: { "x-team": value } });
    return sendAll(fixture, [
      team("/team", "a"),
      team("/team", "a"),
      team("/team", "b"),
      team("/team", ["a", "b"]),
      team("/team", "x".repeat(2_000)),
      team("/team", "{}%00../\\\"'"),
      { path: "/team" },
      { path: "/team" },
      // Counted as requests without the value.
      team("/lenient", ["a", "b"]),
      team("/lenient", "x".repeat(2_000)),
      team("/lenient", "a"),
    ]);
  },
  "bad input is refused and charged to nobody": async (fixture) => {
    const { port } = new URL(fixture.plane.instances[0]!.url);
    const head = "GET /audited HTTP/1.1\r\nHost: a\r\nX-App-Id: shop\r\nConnection: close\r\n";
    const refused: boolean[] = [];
    for (const value of ["a\x01b", "a\x7f", "\x1ba", "a\x08", "x".repeat(1_048_576)]) {
      const status = statusOf(await sendRaw(Number(port), `${head}X-Team: ${value}\r\n\r\n`));
      refused.push(status === 400 || status === 431);
    }
    refused.push(
      (await sendAll(fixture, [{ path: "/audited", headers: { "x-team": ["a", "a"] } }]))[0] === "400 audited",
    );
    const team = (value: string): Sent => ({ path: "/audited", headers: { "x-team": value } });
    return [refused, await sendAll(fixture, [...times(3, team("a")), ...times(3, { path: "/audited" })])];
  },
  "per route, however the path is spelt": (fixture) =>
    sendAll(
      fixture,
      ["/routed/a", "//routed/b", "/routed/%63", "/other"].map((path) => ({ path })),
    ),
  "a cost that the backend states": async (fixture) => {
    // Each request is estimated at 1 and costs 60.
    const stated = (user: string): Sent => ({ path: "/stated/?cost=60", headers: { "x-user-id": user } });
    const { url } = fixture.plane.instances[0]!;
    const seen: Seen[] = [];
    await waitFor("a refusal", async () => {
      seen.push(await send(url, stated("ann")));
      return seen.at(-1)!.status === 429;
    });
    // The first two fit; a cost is charged after its response.
    expect(seen.length).toBeGreaterThan(2);
    expect(seen.length).toBeLessThanOrEqual(100);
    return [seen.at(-1)!.limit, await sendAll(fixture, [stated("bob")])];
  },
  "headers list every limit": async (fixture) => {
    const { headers } = await send(fixture.plane.instances[0]!.url, {
      path: "/both",
      headers: { "x-user-id": "carl", ...from("192.0.2.77") },
    });
    const ietf = String(headers["ratelimit-policy"]);
    return [ietf, headers["x-ratelimit-limit"], headers["x-ratelimit-cost"]];
  },
};

export interface AnyKeyVerdict {
  [part: string]: unknown;
}

export function anyKey(kind: PlaneKind): Promise<AnyKeyVerdict> {
  const apps = `shop: { guaranteed: 100000, burst: 100000, on_store_failure: closed, profile: { based_on: standard } }`;
  return withFixture(
    kind,
    { apps, yaml: LIMITS, instances: 2, workers: 1, paths: ["/routed/", "/stated/, cost_header: X-Cost"] },
    async (fixture) => {
      const verdict: AnyKeyVerdict = {};
      await warmUp(fixture);
      for (const [name, play] of Object.entries(parts)) verdict[name] = await play(fixture);
      return verdict;
    },
  );
}

/** Parts about what Envoy itself does. */
const OF_PLANES = [
  "bad input is refused and charged to nobody",
  "a forged address changes nothing",
  "a cost that the backend states",
  "headers list every limit",
];

/** The same through Envoy's rate limit service, on two services. */
export async function anyKeyOnRls(): Promise<AnyKeyVerdict> {
  const redis = await startRedis();
  const gateways: GatewayProcess[] = [];
  try {
    const urls: string[] = [];
    for (const i of [0, 1]) {
      const listen = `127.0.0.1:${await freePort()}`;
      const routes = "upstreams: { none: { targets: [127.0.0.1:9] } }\nroutes: [{ path: /routed/, upstream: none }]\n";
      const head = `node_id: rls-${i}\nworkers: 1\nstore: ${redis.url}\nlog: { level: warn }\nenvoy: { listen: "${listen}", response_headers: true }\n`;
      gateways.push(await startGateway(`${head}${routes}${LIMITS}`));
      urls.push(`${RLS}http://${listen}`);
    }
    const fixture: Instances = { plane: { instances: urls.map((url) => ({ url })) } };
    const verdict: AnyKeyVerdict = {};
    await warmUp(fixture);
    for (const [name, play] of Object.entries(parts))
      if (!OF_PLANES.includes(name)) verdict[name] = await play(fixture);
    return verdict;
  } finally {
    await Promise.all(gateways.map((gateway) => gateway.stop()));
    await redis.stop();
  }
}

/** What the parts must return on every plane. */
export const expected: AnyKeyVerdict = {
  "5 logins per minute per address": ["200"],
  "a forged address changes nothing": [
    ["200", "200", "200", "200", "200", "429 address", "429 address"],
    ["200", "200", "400 address"],
    ["200"],
  ],
  "an IPv6 /64 is one address": ["200", "200", "200", "200", "200", "429 address"],
  "10 per second per user": ["200", "200", "200"],
  "100 searches per minute for the free plan": ["200", "200", "200"],
  "50 MB of uploads per minute per user": ["200"],
  "several limits are taken together or not at all": [
    ["200", "200", "200", "429 by-user", "429 by-user", "429 by-user"],
    ["200", "200", "429 by-ip"],
  ],
  "allow and deny": ["200", "200", "200", "403 listed", "200", "429 listed"],
  "a dry run refuses nothing": [200, "would-refuse; reason=quota_exhausted"],
  "hostile header values": [
    ...["200", "429 team", "200", "400 team", "400 team", "200", "200", "429 team"],
    ...["200", "429 lenient", "200"],
  ],
  "bad input is refused and charged to nobody": [
    [true, true, true, true, true, true],
    ["200", "200", "429 audited", "200", "200", "429 audited"],
  ],
  "per route, however the path is spelt": ["200", "200", "429 on-route", "200"],
  "a cost that the backend states": ["stated", ["200"]],
  "headers list every limit": ['"shop";q=100000;w=1;qu="tokens", "by-ip";q=5;w=3600, "by-user";q=3;w=3600', "3", "1"],
};

/** The service names no limit if a value is invalid. */
export const expectedOnRls: AnyKeyVerdict = Object.fromEntries(
  Object.entries(expected)
    .filter(([name]) => !OF_PLANES.includes(name))
    .map(([name, seen]) => [name, JSON.parse(JSON.stringify(seen).replaceAll("400 team", "400"))]),
);

/** Three instances with 80/15/5 skew: no time window has more than burst + rate × time. */
export function skewedUsers(kind: PlaneKind): Promise<void> {
  const [rate, burst] = [50, 30];
  const apps = `shop: { guaranteed: 100000, burst: 100000, on_store_failure: closed, ${BY_REQUEST} }`;
  const limit = `name: per-user, key: [user], rate: ${rate}/s, burst: ${burst}, on_store_failure: closed`;
  const yaml = `limits: [{ ${limit} }]\n`;
  return withFixture(kind, { apps, yaml, instances: 3, workers: 1 }, async ({ plane: { instances } }) => {
    const answers: Answered[] = [];
    // Ends after a number of requests, not after a time: a busy machine needs longer to exceed the limit.
    const isEnough = () => passedOf(answers).length >= burst + 3 * rate && answers.some(({ status }) => status === 429);
    const givesUpAt = performance.now() + 150_000;
    async function client(url: string): Promise<void> {
      while (!isEnough() && performance.now() < givesUpAt) {
        const sentAt = performance.now();
        const { status } = await sendOnce(url, { path: "/" });
        answers.push({ sentAt, at: performance.now(), status, error: "" });
      }
    }
    const clients = [16, 3, 1].flatMap((number, i) => Array.from({ length: number }, () => client(instances[i]!.url)));
    await Promise.all(clients);
    expect(worstWindow(answers, rate, burst)).toBeLessThanOrEqual(1);
    expect(isEnough(), `${passedOf(answers).length} of ${answers.length} passed`).toBe(true);
  });
}

/** A user with ten requests and almost no refill: the first ten pass, whichever instance each of them reaches. */
export function lastTokensOfUsers(kind: PlaneKind): Promise<void> {
  const apps = `shop: { guaranteed: 100000, burst: 100000, on_store_failure: closed, ${BY_REQUEST} }`;
  const yaml = `limits: [{ name: per-user, key: [user], rate: 1/h, burst: ${LAST_TOKENS}, on_store_failure: closed }]\n`;
  return withFixture(kind, { apps, yaml }, async ({ plane: { instances } }) => {
    for (const [i, order] of ORDERS.slice(2).entries()) {
      const seen: number[] = [];
      for (const instance of order) {
        const { status } = await send(instances[instance]!.url, { path: "/", headers: { "x-user-id": `user-${i}` } });
        seen.push(status);
      }
      expect(seen, `order ${order.join("")}`).toEqual(order.map((_, at) => (at < LAST_TOKENS ? 200 : 429)));
    }
  });
}

const MANY_USERS = 1000;
const REQUESTS_PER_USER = 13;

/**
 * Many users, each with ten requests, on two instances in random order: a refusal that one worker has just received must not
 * admit the next request on another one.
 */
export function exactTokensOfManyUsers(kind: PlaneKind): Promise<void> {
  const apps = `shop: { guaranteed: 100000, burst: 100000, on_store_failure: closed, ${BY_REQUEST} }`;
  const yaml = `limits: [{ name: per-user, key: [user], rate: 1/h, burst: ${LAST_TOKENS}, on_store_failure: closed }]\n`;
  return withFixture(kind, { apps, yaml }, async ({ plane: { instances } }) => {
    const exceeded: string[] = [];
    let users = 0;
    async function client(): Promise<void> {
      while (users < MANY_USERS) {
        const user = `user-${users++}`;
        const seen: string[] = [];
        for (let i = 0; i < REQUESTS_PER_USER; i++) {
          const instance = Math.random() < 0.5 ? 0 : 1;
          const { status } = await send(instances[instance]!.url, { path: "/", headers: { "x-user-id": user } });
          seen.push(`${instance}:${status}`);
        }
        if (seen.filter((one) => one.endsWith("200")).length > LAST_TOKENS) exceeded.push(`${user} ${seen.join(" ")}`);
      }
    }
    await Promise.all(Array.from({ length: 8 }, client));
    expect(exceeded).toEqual([]);
  });
}
