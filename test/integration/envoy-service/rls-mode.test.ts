/** Envoy's rate limit filter, as `tollgate render envoy --mode rls` configures it, with a real service. */
import { request } from "undici";
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeEnvoy } from "../../support/envoy-binary.js";
import { type EnvoyProcess, startEnvoy } from "../../support/envoy-process.js";
import {
  type GatewayProcess,
  type SmallBackend,
  startGateway,
  startSmallBackend,
} from "../../support/gateway-process.js";
import { freePort } from "../../support/ports.js";

const BY_REQUEST = "profile: { based_on: iops, bandwidth: 0 }";
let backend: SmallBackend;
let service: GatewayProcess;
let trusting: EnvoyProcess;
let trustingNobody: EnvoyProcess;

describeEnvoy("Envoy's rate limit filter, rendered", () => {
  beforeAll(async () => {
    backend = await startSmallBackend();
    const listen = `127.0.0.1:${await freePort()}`;
    const yaml = `
apps:
  small: { guaranteed: 0.001, burst: 5, ${BY_REQUEST} }
  ample: { guaranteed: 1000, burst: 1000, ${BY_REQUEST} }
  default: { guaranteed: 0.001, burst: 3, ${BY_REQUEST} }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
request_limits: { body_bytes: 10 }
`;
    service = await startGateway(`node_id: service\nworkers: 1\nenvoy: { listen: "${listen}" }\n${yaml}`);
    const common = { mode: "rls" as const, envoyServices: [listen] };
    [trusting, trustingNobody] = await Promise.all([
      startEnvoy(yaml, common),
      startEnvoy(`${yaml}identity: { trusted_hops: [] }\n`, common),
    ]);
  });
  afterAll(async () => {
    await Promise.all([trusting?.stop(), trustingNobody?.stop(), service?.stop()]);
    await backend.stop();
  });

  async function statuses(from: EnvoyProcess, app: string | undefined, count: number): Promise<number[]> {
    const seen: number[] = [];
    for (let i = 0; i < count; i++) {
      const { statusCode, body } = await request(from.url, { headers: app === undefined ? {} : { "x-app-id": app } });
      await body.dump();
      seen.push(statusCode);
    }
    return seen;
  }

  it("enforces the limit of the app that the header names", async () => {
    expect(await statuses(trusting, "small", 7)).toEqual([200, 200, 200, 200, 200, 429, 429]);
    expect(await statuses(trusting, "ample", 7)).toEqual(Array(7).fill(200));
  });

  it("uses the default app for requests without a name, or from untrusted hops", async () => {
    expect(await statuses(trusting, undefined, 1)).toEqual([200]);
    expect((await statuses(trustingNobody, "ample", 5)).at(-1)).toBe(429);
    expect(await statuses(trusting, undefined, 1)).toEqual([429]);
    expect(await statuses(trusting, "ample", 1)).toEqual([200]);
  });

  it("rejects a body that is too large without calling the service", async () => {
    const put = async (body: string) => {
      const answer = await request(trusting.url, { method: "PUT", body, headers: { "x-app-id": "ample" } });
      return [answer.statusCode, await answer.body.text()];
    };
    const asked = () => trusting.admin("/stats?filter=tollgate_envoy.upstream_rq_total");
    const before = await asked();
    expect(await put("12345678901")).toEqual([413, '{"error":"content_too_large","reason":"body_too_large"}\n']);
    expect(await asked()).toBe(before);
    expect((await put("1234567890"))[0]).toBe(200);
    expect(await asked()).not.toBe(before);
  });

  it("refuses all requests when the service is unavailable", async () => {
    service.killAll();
    await service.ended;
    expect(new Set(await statuses(trusting, "ample", 5))).toEqual(new Set([503]));
  });
});
