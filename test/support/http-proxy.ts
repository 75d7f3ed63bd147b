/** A proxy under test on a free port, with a decider that records requests and settlements. */
import { EventEmitter, once } from "node:events";
import type { AddressInfo } from "node:net";
import { expect } from "vitest";
import type { UpstreamOptions } from "../../src/config/options/proxy.js";
import { createProxy, type ReverseProxy } from "../../src/planes/node/http/proxy.js";
import type { Admission, Arrival, Verdict } from "../../src/planes/node/http/request-admission.js";
import type { CreateProxyOptions, ProxyLog } from "../../src/planes/node/options.js";
import { type SecureServerOptions, secureServer } from "../../src/shared/tls/secure-server.js";

export interface Settlement {
  verdict: Verdict;
  requestBytes: number;
  responseBytes: number;
}

export interface TestAdmission extends Admission {
  readonly arrivals: Arrival[];
  readonly admitted: Verdict[];
  readonly settled: Settlement[];
  /** Resolves with the settlement of this index, from 0, when it has happened. */
  settlement(number?: number): Promise<Settlement>;
}

export type Decide = (arrival: Arrival) => Verdict | Promise<Verdict>;

export const admitted = (headers: Record<string, string> = {}): Verdict => ({
  allowed: true,
  headers,
  status: 200,
  body: "",
  app: "the-app",
});

export const refused = (status = 429, headers: Record<string, string> = { "Retry-After": "1" }): Verdict => ({
  allowed: false,
  headers,
  status,
  body: '{"error":"rate_limit_exceeded","reason":"quota_exhausted"}',
  app: "the-app",
});

export function createTestAdmission(decide: Decide): TestAdmission {
  const events = new EventEmitter();
  const admission: TestAdmission = {
    arrivals: [],
    admitted: [],
    settled: [],
    admit(arrival) {
      admission.arrivals.push(arrival);
      const note = (verdict: Verdict) => {
        if (verdict.allowed) admission.admitted.push(verdict);
        return verdict;
      };
      const verdict = decide(arrival);
      return verdict instanceof Promise ? verdict.then(note) : note(verdict);
    },
    settle(verdict, requestBytes, responseBytes) {
      admission.settled.push({ verdict, requestBytes, responseBytes });
      events.emit("settled");
    },
    async settlement(number = 0) {
      while (admission.settled.length <= number) await once(events, "settled");
      return admission.settled[number]!;
    },
  };
  return admission;
}

export interface LogLine extends Record<string, unknown> {
  level: "info" | "warn";
  message: string;
}

export interface RunningProxy {
  readonly proxy: ReverseProxy;
  readonly port: number;
  readonly admission: TestAdmission;
  readonly lines: LogLine[];
  /** Closes the proxy and checks that every admitted exchange was settled exactly once. */
  stop(): Promise<void>;
}

export interface TestProxyOptions extends Partial<Omit<CreateProxyOptions, "admission" | "log">> {
  decide?: Decide;
  /** Targets of the upstream `backend`, which serves all paths unless `routes` is given. */
  targets?: string[];
  upstream?: Partial<UpstreamOptions>;
  /** Plaintext without it. */
  tls?: SecureServerOptions;
}

export async function startProxy({
  decide = () => admitted(),
  targets = [],
  upstream = {},
  tls,
  ...options
}: TestProxyOptions): Promise<RunningProxy> {
  const admission = createTestAdmission(decide);
  const lines: LogLine[] = [];
  const log: ProxyLog = {
    info: (fields, message) => void lines.push({ ...fields, level: "info", message }),
    warn: (fields, message) => void lines.push({ ...fields, level: "warn", message }),
  };
  const proxy = createProxy({
    routes: [{ path: "/", upstream: "backend" }],
    upstreams: { backend: { targets, ...upstream } },
    ...options,
    admission,
    log,
  });
  if (tls !== undefined) secureServer(proxy.server, tls);
  proxy.server.listen(0, "127.0.0.1");
  await once(proxy.server, "listening");
  return {
    proxy,
    port: (proxy.server.address() as AddressInfo).port,
    admission,
    lines,
    async stop() {
      await proxy.close();
      for (const verdict of admission.admitted) {
        expect(admission.settled.filter((settlement) => settlement.verdict === verdict)).toHaveLength(1);
      }
      expect(admission.settled).toHaveLength(admission.admitted.length);
    },
  };
}

/** Stops what was started during a test, in reverse order. */
export function createCleanup(): {
  add<T extends { stop(): Promise<void> }>(thing: Promise<T>): Promise<T>;
  run(): Promise<void>;
} {
  const stops: (() => Promise<void>)[] = [];
  return {
    async add(starting) {
      const thing = await starting;
      stops.push(() => thing.stop());
      return thing;
    },
    async run() {
      for (const stop of stops.splice(0).reverse()) await stop();
    },
  };
}
