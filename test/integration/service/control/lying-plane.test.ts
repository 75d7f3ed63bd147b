/** A data plane that sends wrong counters to a real service creates no tokens, and harms only itself. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { type GatewayProcess, PLANE_TOKEN, startGateway } from "../../../support/gateway-process.js";
import { type RedisServer, startRedis } from "../../../support/redis-server.js";

const [RATE, BURST, ROUNDS] = [10, 20, 100];

let redis: RedisServer;
let service: GatewayProcess;
beforeAll(async () => {
  redis = await startRedis();
  // Priority 0: a claim of many tokens starts an emergency.
  const limits = `{ guaranteed: ${RATE}, burst: ${BURST}, priority: 0 }`;
  service = await startGateway(`
store: ${redis.url}
workers: 1
log: { level: error }
lease: { timeout_ms: 10000 }
apps: { itself: ${limits}, unspent: ${limits}, huge: ${limits}, invalid: ${limits} }
upstreams: { none: { targets: ["127.0.0.1:1"] } }
routes: [{ path: /, upstream: none }]
`);
});
afterAll(async () => {
  await service?.stop();
  await redis?.stop();
});

interface Counters {
  granted: number;
  spent: number;
  returned: number;
  need: number;
  want: number;
}

interface Answer {
  code: string;
  apps: { grant: number; granted: number }[];
}

async function post(body: unknown): Promise<Response> {
  return fetch(`${service.controlUrl}/v1/sync`, {
    method: "POST",
    headers: { authorization: `Bearer ${PLANE_TOKEN}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

/** A plane that sends messages about one app, numbered as they should be. */
function createPlane(node: string, app: string) {
  let [epoch, seq] = [1, 0];
  return {
    restart() {
      epoch++;
      seq = 0;
    },
    async send(counters: Counters): Promise<Answer> {
      const response = await post({ node, epoch, seq: ++seq, apps: [{ app, ...counters }] });
      expect(response.status).toBe(200);
      return (await response.json()) as Answer;
    },
  };
}

/** Spends all it gets, and says so. Returns what it got. */
function createHonestPlane(app: string) {
  const plane = createPlane(`honest-${app}`, app);
  let granted = 0;
  return async () => {
    const answer = await plane.send({ granted, spent: granted, returned: 0, need: 1, want: 1000 });
    granted = answer.apps[0]!.granted;
    return granted;
  };
}

/** Runs all rounds and expects that the tokens they count are within the limit. */
async function expectWithinLimit(round: () => Promise<number>): Promise<void> {
  const startedAt = performance.now();
  let tokens = 0;
  for (let i = 0; i < ROUNDS; i++) tokens = await round();
  const allowed = BURST + (RATE * (performance.now() - startedAt)) / 1000;
  expect(tokens).toBeGreaterThanOrEqual(BURST / 2);
  expect(tokens).toBeLessThanOrEqual(allowed);
}

it("a plane that adds to both granted and returned gets no more than the limit", async () => {
  const liar = createPlane("liar-itself", "itself");
  const counters = { granted: 0, spent: 0, returned: 0, need: 1, want: 1000 };
  let tokens = 0;
  await expectWithinLimit(async () => {
    const answer = await liar.send(counters);
    tokens += answer.apps[0]!.grant;
    counters.spent = tokens;
    counters.returned += 1000;
    counters.granted = answer.apps[0]!.granted + 1000;
    return tokens;
  });
});

it("a plane that returns tokens of which it first said that they were spent does not help others", async () => {
  const [liar, honest] = [createPlane("liar-unspent", "unspent"), createHonestPlane("unspent")];
  await expectWithinLimit(async () => {
    liar.restart();
    await liar.send({ granted: 1000, spent: 1000, returned: 0, need: 0, want: 0 });
    await liar.send({ granted: 1000, spent: 0, returned: 1000, need: 0, want: 0 });
    return honest();
  });
});

it("a plane that claims and returns more than a bucket can owe does not help others", async () => {
  const [liar, honest] = [createPlane("liar-huge", "huge"), createHonestPlane("huge")];
  await expectWithinLimit(async () => {
    const tokens = await honest();
    liar.restart();
    await liar.send({ granted: 3e9, spent: 0, returned: 0, need: 0, want: 0 });
    await liar.send({ granted: 3e9, spent: 0, returned: 3e9, need: 0, want: 0 });
    return tokens;
  });
});

it.each(["granted", "spent", "returned", "need", "want"])("an invalid %s is rejected with its name", async (field) => {
  const message = (seq: number, change: object) => ({
    node: `invalid-${field}`,
    epoch: 1,
    seq,
    apps: [{ app: "invalid", granted: 0, spent: 0, returned: 0, need: 0, want: 0, ...change }],
  });
  for (const value of [-1, 0.5, 2 ** 53, 1e300, "5", null]) {
    const response = await post(message(1, { [field]: value }));
    expect([value, response.status]).toEqual([value, 400]);
    expect(await response.text()).toContain(field);
  }
  // Nothing was recorded: the number of the message is still unused.
  const valid = (await (await post(message(1, { want: 1 }))).json()) as Answer;
  expect(valid.code).toBe("ok");
});
