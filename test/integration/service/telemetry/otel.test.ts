/** Metrics and traces of a running service arrive at an OTLP receiver; a trace has client, gateway and backend. */
import { ROOT_CONTEXT, SpanKind, trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { SimpleSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
import { request } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { metrics } from "../../../../src/service/metrics/catalog.js";
import { formatTraceParent, parseTraceParent } from "../../../../src/service/telemetry/tracing.js";
import { type GatewayProcess, startGateway } from "../../../support/gateway-process.js";
import { startBackend } from "../../../support/http-backend.js";
import { type OtlpReceiver, spansOfTrace, startOtlpReceiver } from "../../../support/otlp-receiver.js";
import { freePort } from "../../../support/ports.js";
import { waitFor } from "../../../support/wait-for.js";

const endings: (() => unknown)[] = [];
let receiver: OtlpReceiver;
let gateway: GatewayProcess;
/** `traceparent` of the requests that the backend got. */
const seenByBackend: (string | undefined)[] = [];
let backendPort: number;

/** The SDK as client and backend use it. */
function startTracer(service: string) {
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ "service.name": service }),
    spanProcessors: [
      new SimpleSpanProcessor({ exporter: new OTLPTraceExporter({ url: `${receiver.url}/v1/traces` }) }),
    ],
  });
  endings.push(() => provider.shutdown());
  return provider.getTracer("test");
}

const config = (otel: string) => `
node_id: gw
workers: 1
otel: { ${otel} }
apps:
  video: { guaranteed: 100000, burst: 100000 }
  small: { guaranteed: 0.001, burst: 2 }
upstreams: { backend: { targets: ["127.0.0.1:${backendPort}"] } }
routes: [{ path: /, upstream: backend }]
`;

beforeAll(async () => {
  receiver = await startOtlpReceiver();
  endings.push(() => receiver.stop());
  const tracer = startTracer("backend");
  const backend = await startBackend((incoming, response) => {
    const header = incoming.headers.traceparent as string | undefined;
    seenByBackend.push(header);
    const parent = parseTraceParent(header === undefined ? [] : [header]);
    if (parent?.isSampled) {
      const remote = { traceId: parent.traceId, spanId: parent.spanId, traceFlags: 1, isRemote: true };
      tracer.startSpan("work", { kind: SpanKind.SERVER }, trace.setSpanContext(ROOT_CONTEXT, remote)).end();
    }
    response.end("ok");
  });
  endings.push(() => backend.stop());
  backendPort = backend.port;
  const options =
    "sample_ratio: 0, metrics_interval_ms: 1000, traces_interval_ms: 100, authorization: Bearer of-the-test";
  gateway = await startGateway(config(`endpoint: "${receiver.url}/", ${options}`));
  endings.push(() => gateway.stop());
});
afterAll(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

async function ask(url: string, app: string, headers: Record<string, string> = {}): Promise<number> {
  const { statusCode, body } = await request(`${url}/path`, { headers: { "x-app-id": app, ...headers } });
  await body.dump();
  return statusCode;
}

describe("traces", () => {
  it("show a request from the client through the gateway to the backend", async () => {
    const client = startTracer("client").startSpan("call", { kind: SpanKind.CLIENT });
    const traceparent = formatTraceParent(client.spanContext());
    expect(await ask(gateway.url, "video", { traceparent, tracestate: "vendor=1" })).toBe(200);
    client.end();
    const of = await spansOfTrace(receiver, client.spanContext().traceId);
    expect(of("tollgate").parentId).toBe(of("client").spanId);
    expect(of("backend").parentId).toBe(of("tollgate").spanId);
    expect(of("tollgate")).toMatchObject({
      name: "GET",
      events: ["decided"],
      attributes: {
        "tollgate.reason_to_trace": "sampled",
        "tollgate.app": "video",
        "tollgate.decision.allowed": true,
        "tollgate.decision.code": "ok",
        "http.response.status_code": 200,
        "url.path": "/path",
      },
    });
  });

  it("pass the header of a trace that is not sampled on, without a span", async () => {
    const traceId = "0af7651916cd43dd8448eb211c80319c";
    const header = `00-${traceId}-b7ad6b7169203331-00`;
    expect(await ask(gateway.url, "video", { traceparent: header })).toBe(200);
    expect(seenByBackend.at(-1)).toBe(header);
    expect(await ask(gateway.url, "video")).toBe(200);
    expect(seenByBackend.at(-1)).toBeUndefined();
    expect(receiver.spans.filter((span) => span.traceId === traceId)).toEqual([]);
  });

  it("have a span for each refused request, in the client's trace or a new one", async () => {
    const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
    const traceparent = `00-${traceId}-00f067aa0ba902b7-00`;
    await ask(gateway.url, "small");
    expect(await ask(gateway.url, "small", { traceparent })).toBe(429);
    expect(await ask(gateway.url, "small", { traceparent: "00-0-0-01" })).toBe(429);
    const refused = await waitFor("the spans", () => {
      const found = receiver.spans.filter(({ attributes }) => attributes["tollgate.reason_to_trace"] === "refused");
      return found.length === 2 && found;
    });
    expect(refused.map(({ parentId }) => parentId).sort()).toEqual(["", "00f067aa0ba902b7"]);
    for (const { attributes } of refused) {
      expect(attributes).toMatchObject({
        "tollgate.decision.allowed": false,
        "tollgate.decision.code": "quota_exhausted",
        "http.response.status_code": 429,
      });
    }
  });

  it("have a span for slow decisions and a share of the others, up to the configured number", async () => {
    const all = await startGateway(
      config(
        `endpoint: "${receiver.url}", service_name: sampled, sample_ratio: 1, max_spans_per_second: 5, traces_interval_ms: 100, metrics: false`,
      ),
    );
    endings.push(() => all.stop());
    const startedMs = performance.now();
    for (let i = 0; i < 30; i++) expect(await ask(all.url, "video")).toBe(200);
    const seconds = (performance.now() - startedMs) / 1000;
    await all.stop();
    const count = receiver.spans.filter(({ service }) => service === "sampled").length;
    expect(count).toBeGreaterThan(0);
    expect(count).toBeLessThanOrEqual(5 * (Math.floor(seconds) + 2));
  });
});

describe("metrics", () => {
  it("arrive with the counts of the clients", async () => {
    await waitFor("requests", () => {
      const point = receiver.points.find(
        ({ name, attributes }) =>
          name === "ratelimit_requests_total" && attributes.app_id === "small" && attributes.status === "rejected",
      );
      return point?.kind === "sum" && point.value === 2;
    });
    const latency = receiver.points.find(({ name }) => name === "ratelimit_check_latency_seconds");
    expect(latency).toMatchObject({ kind: "histogram", unit: "s" });
    expect(latency?.buckets?.reduce((sum, one) => sum + one, 0)).toBe(latency?.value);
    const level = receiver.points.find(({ name }) => name === "ratelimit_degradation_level");
    expect(level).toMatchObject({ kind: "gauge", attributes: { node_id: "gw-1" } });
    for (const { name } of receiver.points) expect(Object.keys(metrics)).toContain(name);
    expect(receiver.authorizations).toContain("Bearer of-the-test");
  });
});

describe("without a collector", () => {
  it("requests are answered, and failed exports are logged once and counted", async () => {
    const port = await freePort();
    const options =
      "sample_ratio: 1, max_spans_per_second: 1000000, metrics_interval_ms: 1000, traces_interval_ms: 100";
    const alone = await startGateway(config(`endpoint: "http://127.0.0.1:${port}", ${options}`));
    endings.push(() => alone.stop());
    for (let i = 0; i < 300; i++) expect(await ask(alone.url, "video")).toBe(200);
    await waitFor("failures", async () => {
      const page = await (await request(`${alone.controlUrl}/metrics`)).body.text();
      return ["otlp_metrics", "otlp_traces"].every((name) =>
        new RegExp(`ratelimit_export_failures_total\\{exporter="${name}"\\} [1-9]`).test(page),
      );
    });
    expect(alone.output().split("OpenTelemetry export failed").length - 1).toBe(2);
    await alone.stop();
    expect(await alone.ended).toBe(0);
  });
});
