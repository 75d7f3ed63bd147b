/** Three gateway processes on one Redis follow a new configuration under load, and no request fails for it. */
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { request } from "undici";
import { afterEach, describe, expect, it } from "vitest";
import { ADMIN_TOKEN, type GatewayProcess } from "../support/gateway-process.js";
import { sendLoad } from "../support/http-load.js";
import { startThreeGateways } from "../support/three-gateways.js";
import { waitFor } from "../support/wait-for.js";

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
}, 60_000);

const startThree = () =>
  startThreeGateways(endings, "metered: { guaranteed: 400, burst: 400, profile: { based_on: iops, bandwidth: 0 } }");

async function admin(gateway: GatewayProcess, method: "GET" | "PUT" | "POST", path: string, body?: unknown) {
  const { statusCode, body: answer } = await request(`${gateway.controlUrl}/admin/ratelimit/${path}`, {
    method,
    headers: { authorization: `Bearer ${ADMIN_TOKEN}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: statusCode, answer: (await answer.json()) as Record<string, unknown> };
}

async function versions(gateways: GatewayProcess[]): Promise<unknown[]> {
  const all = await Promise.all(gateways.map((gateway) => admin(gateway, "GET", "status")));
  return all.map(({ answer }) => answer.config_version);
}

/** Requests that passed in any second that lies wholly after `from`. */
function mostPerSecond(passed: { sentAt: number; at: number }[], from: number): number {
  const after = passed.filter(({ sentAt }) => sentAt >= from).sort((a, b) => a.sentAt - b.sentAt);
  return Math.max(
    0,
    ...after.map((first) => after.filter((o) => o.sentAt >= first.sentAt && o.at < first.sentAt + 1000).length),
  );
}

describe("a limit that is halved under load", () => {
  it("holds on three gateways soon after one of them was told, and no request fails", async () => {
    const { gateways } = await startThree();
    const before = (await versions(gateways))[0];
    expect(new Set(await versions(gateways)).size).toBe(1);
    const loads = gateways.map((gateway) => sendLoad(gateway.url, "metered", 250, 9));
    const changedAt = performance.now() + 3_000;
    await waitFor("the load to be under way", () => performance.now() >= changedAt);
    const toldAt = performance.now();
    const put = await admin(gateways[0]!, "PUT", "config", {
      config: { apps: { metered: { guaranteed: 200, burst: 200 } } },
      operator: "the test",
      reason: "half of it",
    });
    expect(put.status, JSON.stringify(put.answer)).toBe(200);
    const now = await waitFor("all three to follow", async () => {
      const seen = new Set(await versions(gateways));
      return seen.size === 1 && !seen.has(before) ? [...seen][0] : undefined;
    });
    const followedAt = performance.now();
    console.info(`three gateways followed ${Math.round(followedAt - toldAt)} ms after one was told`);
    expect(now).not.toBe(before);
    const answers = (await Promise.all(loads)).flat();
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 429]));
    const passed = answers.filter(({ status }) => status === 200);
    // One second for what was full when the limit was halved: a bucket and the leases that were out.
    const settledAt = followedAt + 1_500;
    expect(mostPerSecond(passed, settledAt)).toBeLessThanOrEqual(200 + 200);
    const seconds = (Math.max(...passed.map(({ at }) => at)) - settledAt) / 1000;
    const steady = passed.filter(({ sentAt }) => sentAt >= settledAt).length;
    expect(steady).toBeLessThanOrEqual(200 + 200 * seconds);
    expect(steady).toBeGreaterThan(200 * seconds * 0.8);
  }, 90_000);

  it("comes with a new file, with SIGHUP or by its own watch; a bad file changes nothing and is told of", async () => {
    const { gateways } = await startThree();
    const [gateway] = gateways as [GatewayProcess, ...GatewayProcess[]];
    const good = readFileSync(gateway.file, "utf8");
    const [before] = await versions([gateway]);
    replaceFile(gateway.file, good.replace("guaranteed: 400", "guaranteed: -1"));
    gateway.kill("SIGHUP");
    await waitFor("the complaint", () => /apps\.metered\.guaranteed/.test(gateway.output()));
    expect(await versions([gateway])).toEqual([before]);
    const refused = await admin(gateway, "POST", "reload", { source: "file" });
    expect(refused.status).toBe(422);
    expect(JSON.stringify(refused.answer)).toContain("apps.metered.guaranteed");
    replaceFile(gateway.file, good.replace("guaranteed: 400", "guaranteed: 100"));
    await waitFor("the new version", async () => (await versions([gateway]))[0] !== before);
  }, 60_000);
});

function replaceFile(file: string, text: string): void {
  writeFileSync(`${file}.new`, text);
  renameSync(`${file}.new`, file);
}
