/** A large response is paid for, but does not lock out the requests that follow, on every plane. */
import { request } from "undici";
import { expect, it } from "vitest";
import { type Fixture, startFixture } from "../scenarios/fixture.js";
import { describeEnvoy } from "../support/envoy-binary.js";
import { openRaw, statusOf } from "../support/http-client.js";
import type { PlaneKind } from "../support/planes.js";
import { waitFor } from "../support/wait-for.js";

const BURST = 20;
const LARGE = 14 * 1024 * 1024;
/** The base cost, and one token for a small response. */
const NORMAL_COST = 2;
const apps = `app: { guaranteed: 100, burst: ${BURST}, on_store_failure: closed }`;

async function get(url: string): Promise<{ status: number; cost: number; reason: string }> {
  const { statusCode: status, headers, body } = await request(url, { headers: { "x-app-id": "app" } });
  const text = await body.text();
  const reason = status === 200 ? "" : (JSON.parse(text) as { reason: string }).reason;
  return { status, cost: Number(headers["x-ratelimit-cost"]), reason };
}

/** Only the head of the request is sent: the declared length decides. */
async function declare(url: string, bytes: number): Promise<string> {
  const client = await openRaw(Number(new URL(url).port));
  client.write(`PUT / HTTP/1.1\r\nHost: x\r\nX-App-Id: app\r\nContent-Length: ${bytes}\r\n\r\n`);
  const answer = await client.until((text) => text.includes('"reason"'));
  client.socket.destroy();
  return answer;
}

async function largeResponse({ plane }: Fixture): Promise<void> {
  const { url } = plane.instances[0]!;
  const reasons = new Set<string>();
  const passed = async (path: string) => {
    const reply = await get(`${url}${path}`);
    reasons.add(reply.reason);
    return reply.status === 200 && reply;
  };
  await waitFor("the large response", () => passed(`/?bytes=${LARGE}`));
  const next = await waitFor("a request after it", () => passed("/"));
  expect(next.cost).toBeLessThanOrEqual(BURST);
  let requests = 0;
  await waitFor("the estimate to be normal", async () => {
    const reply = await passed("/");
    if (reply !== false) requests++;
    return reply !== false && reply.cost === NORMAL_COST;
  });
  expect(requests).toBeLessThanOrEqual(30);
  // Others are possible: quota_exhausted, and store_unavailable on a busy machine.
  expect([...reasons]).not.toContain("cost_exceeds_capacity");

  const upload = await waitFor("an upload to be refused by the limit", async () => {
    const text = await declare(url, LARGE);
    return statusOf(text) === 429 && !text.includes("quota_exhausted") && text;
  });
  expect(upload).toContain("cost_exceeds_capacity");
  expect(upload).not.toMatch(/retry-after/i);
}

async function play(kind: PlaneKind): Promise<void> {
  const fixture = await startFixture(kind, { apps, instances: 1, workers: 1 });
  try {
    await largeResponse(fixture);
  } finally {
    await fixture.stop();
  }
}

const NAME = "a response above the burst does not lock out later requests, and the estimate returns to normal";

it.each(["node", "nginx"] as const)(`on %s ${NAME}`, play);
describeEnvoy("on Envoy", () => {
  it(NAME, () => play("envoy"));
});
