/** Messages of data planes, in text and JSON, through validation to an embedded store: no message may create tokens or slots. */
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import type { BucketLimits } from "../../src/core/app-limits.js";
import { createQuota } from "../../src/quota/quota.js";
import { connectionEndpoints } from "../../src/service/control/plane-api/connection-api.js";
import { createSyncHandler, syncEndpoint } from "../../src/service/control/plane-api/sync.js";
import { readCall } from "../../src/service/control/request.js";
import { Rejected } from "../../src/service/operations/endpoint.js";
import { createRouteSlots } from "../../src/slots/slots.js";
import { createEmbeddedStore } from "../../src/store/embedded/embedded-store.js";
import { InvalidArgument } from "../../src/store/errors.js";
import { byteAt, type FuzzTarget, type RunningTarget } from "../target.js";

const apps: BucketLimits[] = ["video", "loans"].map((id) => ({
  id,
  burst: 1_000,
  guaranteed: 1,
  priority: 0,
  borrow: false,
}));
const ROUTE = "/sockets";
const MAX_PER_POD = 3;

/** The first byte selects the endpoint, the second one the media type: even for text. */
const texts = [
  "n 1 1\nvideo 0 0 0 5 5\nloans 0 0 0 5 50\n",
  "n 1 2\nvideo 5 3 1 5 5\n",
  "n 1 3 0 leave\nvideo 10 10 0 0 0\n",
  "n 2 1\nvideo 9007199254740991 9007199254740991 9007199254740991 1 1\n# 1\nvideo 1 2 3\n",
  "n 3 1\nvideo 0 0 0 1 1\n#node clock=9\n#numbers 1\n#refused video 8 quota_exhausted GET 1 -2 0 9 30 cached 0\n",
  '{"node":"n","epoch":1,"seq":1,"apps":[{"app":"video","granted":0,"spent":0,"need":5,"want":5}]}',
];
const connectionTexts = [
  "p c1 - /sockets 0 0\npod:1 pod:2\n",
  "p /sockets\nc1 pod:1\nc2 pod:2 video /sockets\n",
  "pod:1 pod:2\n",
  "acquire ws:pod_conn:pod:1 3 c1 p\n",
  '{"proxy":"p","connection":"c1","pod":"pod:1"}',
];

export const sync: FuzzTarget = {
  seeds: [
    ...texts.map((text) => Buffer.concat([Buffer.from([0, text.startsWith("{") ? 1 : 0]), Buffer.from(text)])),
    ...connectionTexts.flatMap((text) =>
      [1, 2, 3, 4, 5].map((i) => Buffer.concat([Buffer.from([i, text.startsWith("{") ? 1 : 0]), Buffer.from(text)])),
    ),
  ],
  words: [
    ...[
      "0",
      "1",
      "-1",
      "9007199254740991",
      "9007199254740993",
      "1e9",
      "NaN",
      " ",
      "\n",
      "\r\n",
      "#",
      "! *",
      "leave",
      "-",
      "video",
    ],
    ...[
      "__proto__",
      "constructor",
      "{}",
      "[]",
      '{"apps":[',
      '"spent":',
      "ws:pod_conn:pod:1",
      "ws:{c//sockets}:pod_conn:a",
      "pod:1",
      "\xff",
    ],
  ],
  maxBytes: 16_384,
  budget: { cpuMs: 500, memoryMb: 64 },
  start,
};

async function start(): Promise<RunningTarget> {
  const store = createEmbeddedStore();
  const quota = createQuota(store, { id: "c", capacity: 1_500, rate: 1, nodeTtlMs: 10_000 });
  const slots = createRouteSlots(store, "c", () => undefined);
  const limits = { maxPerPod: MAX_PER_POD, maxTotal: 0, maxPerApp: 0, ratePerSecond: 0, burst: 1, leaseMs: 30_000 };
  const endpoints = [
    syncEndpoint(
      createSyncHandler({
        quota,
        apps: () => apps,
        configVersion: () => "v",
        recalled: () => [],
        timeoutMs: () => 1_000,
      }),
    ),
    ...connectionEndpoints({
      slots,
      routes: () => new Map([[ROUTE, { ...limits, onStoreFailure: "closed" as const }]]),
      appOf: (name) => (name === "video" || name === "default" ? name : undefined),
      timeoutMs: () => 1_000,
    }),
  ];

  const access = { token: "", mayChange: true, name: "", isCurrent: () => true, mayActFor: () => true };
  return {
    async run(input) {
      const endpoint = endpoints[byteAt(input, 0) % endpoints.length]!;
      const type = byteAt(input, 1) % 2 === 0 ? "text/plain" : "application/json";
      try {
        const { status, body } = await endpoint.handle(
          await readCall(requestOf(input.subarray(2), type), endpoint, {}, { search: "", access }),
        );
        if (status === 200 && type === "text/plain") endpoint.text?.format(body);
      } catch (error) {
        if (!(error instanceof Rejected || error instanceof InvalidArgument)) throw error;
      }
      for (const app of apps) {
        const { tokens } = await quota.inspect(app);
        if (!(tokens <= app.burst)) throw new Error(`${tokens} tokens in a bucket of ${app.burst}`);
      }
    },
    async stop() {
      await store.close();
    },
  };
}

/** As much of a request as `readCall` uses. */
function requestOf(body: Buffer, type: string): IncomingMessage {
  const headers = { "content-type": type, "content-length": String(body.length) };
  return Object.assign(Readable.from([body]), { headers, complete: true }) as unknown as IncomingMessage;
}
