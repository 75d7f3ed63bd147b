/** The Express and Fastify examples of the library run and enforce their limits. */
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";

interface Example {
  server: Server;
  stop(): Promise<void>;
}

describe.each(["express", "fastify"])("the example with %s", (name) => {
  let example: Example;
  let url: string;
  beforeAll(async () => {
    process.env.PORT = "0";
    vi.resetModules();
    example = (await import(`../../../examples/library/${name}.ts`)) as Example;
    if (!example.server.listening) await new Promise((resolve) => example.server.once("listening", resolve));
    url = `http://127.0.0.1:${(example.server.address() as AddressInfo).port}/hello`;
  });
  afterAll(() => example?.stop());

  const get = (team: string) => fetch(url, { headers: { "X-API-Key": `example-key-of-${team}` } });

  it("refuses clients without a valid API key before anything is charged", async () => {
    for (const headers of [{}, { "X-API-Key": "red" }, { "X-Team": "red" }] as Record<string, string>[]) {
      const response = await fetch(url, { headers });
      expect([response.status, response.headers.get("x-ratelimit-cost")]).toEqual([401, null]);
    }
  });

  it("responds within the limit, with the cost and the remaining tokens", async () => {
    const response = await get("red");
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({ hello: "world" });
    expect(response.headers.get("x-ratelimit-cost")).toBe("1");
    expect(response.headers.get("x-ratelimit-limit")).toBe("200");
    expect(response.headers.get("ratelimit-policy")).toBe('"red";q=200;w=2;qu="tokens"');
    expect(response.headers.get("ratelimit")).toMatch(/^"red";r=\d+;t=\d+$/);
  });

  it("charges for bodies, not headers: a hundred small responses fit into a burst of 200", async () => {
    for (let i = 0; i < 90; i++) {
      const response = await get("red");
      await response.arrayBuffer();
      expect(response.status).toBe(200);
    }
  });

  it("admits everything in a dry run, and shows what it would have refused", async () => {
    const remarks = [];
    for (let i = 0; i < 6; i++) {
      const response = await get("trial");
      await response.arrayBuffer();
      expect(response.status).toBe(200);
      expect(response.headers.get("retry-after")).toBe(null);
      remarks.push(response.headers.get("x-ratelimit-dry-run"));
    }
    expect(remarks[0]).toBe("pass");
    expect(remarks).toContain("would-refuse; reason=quota_exhausted");
  });

  it("refuses requests beyond the limit with 429, a retry time and a reason", async () => {
    const refused = [];
    for (let i = 0; i < 6; i++) {
      const response = await get("tiny");
      if (response.status !== 200) refused.push({ response, body: await response.json() });
      else await response.arrayBuffer();
    }
    expect(refused.length).toBeGreaterThan(0);
    for (const { response, body } of refused) {
      expect(response.status).toBe(429);
      expect(Number(response.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
      expect(body).toMatchObject({ error: "rate_limit_exceeded", reason: "quota_exhausted", app_id: "tiny", limit: 2 });
    }
  });
});
