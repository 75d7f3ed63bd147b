/** A control listener on a free port over any store, and a data plane that talks to it. */
import type { AddressInfo } from "node:net";
import { standardProfile } from "../../src/core/cost.js";
import type { LimitedApp } from "../../src/limiter/app-lease.js";
import { createQuota } from "../../src/quota/quota.js";
import { type ControlOptions, createControl } from "../../src/service/control.js";
import { createReadiness } from "../../src/service/readiness.js";
import { createSyncHandler } from "../../src/service/sync.js";
import type { Store } from "../../src/store/store.js";

export const PLANE_TOKEN = "plane-token-0123456789";

export const videoApp: LimitedApp = {
  ...{ id: "video", guaranteed: 100, burst: 1000, priority: 1, borrow: false },
  ...{ profile: standardProfile, onStoreFailure: "closed" as const },
};

export interface ControlServer {
  url: string;
  port: number;
  logged: string[];
  post(body: unknown, headers?: Record<string, string>): Promise<Response>;
  close(): Promise<void>;
}

export async function startControl(store: Store, options: Partial<ControlOptions> = {}): Promise<ControlServer> {
  const quota = createQuota(store, { id: "c", capacity: 10_000, rate: 1_000, nodeTtlMs: 10_000 });
  const logged: string[] = [];
  const write = (_fields: Record<string, unknown>, message: string) => logged.push(message);
  const control = createControl({
    // On a clock that stands still: how long a busy machine takes for an answer is not what is tested.
    sync: createSyncHandler({ quota, apps: [videoApp], configVersion: "v1", timeoutMs: 1_000, now: () => 0 }),
    isStoreReady: createReadiness(store),
    planeToken: PLANE_TOKEN,
    allow: ["127.0.0.0/8"],
    hosts: [],
    log: { warn: write, error: write },
    ...options,
  });
  await new Promise<void>((resolve) => {
    control.server.listen(0, "127.0.0.1", resolve);
  });
  const { port } = control.server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  return {
    ...{ url, port, logged },
    post: (body, headers = {}) =>
      fetch(`${url}/v1/sync`, {
        method: "POST",
        headers: { authorization: `Bearer ${PLANE_TOKEN}`, "content-type": "application/json", ...headers },
        body: typeof body === "string" ? body : JSON.stringify(body),
      }),
    close: control.close,
  };
}
