/** Metrics and traces of a running service arrive at an OpenTelemetry Collector; a trace has client, gateway and backend. */
import { ROOT_CONTEXT, SpanKind, trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { SimpleSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
import { request } from "undici";
import { afterAll, beforeAll, expect, it } from "vitest";
import { formatTraceParent, parseTraceParent } from "../../src/service/telemetry/tracing.js";
import { type Collector, startCollector } from "../support/collector.js";
import { type GatewayProcess, startGateway } from "../support/gateway-process.js";
import { startBackend } from "../support/http-backend.js";
import { type OtlpReceiver, spansOfTrace, startOtlpReceiver } from "../support/otlp-receiver.js";
import { waitFor } from "../support/wait-for.js";

const endings: (() => unknown)[] = [];
/** Behind the collector, to see what it got. */
let receiver: OtlpReceiver;
let collector: Collector;
let gateway: GatewayProcess;

/** The SDK as client and backend use it. */
function startTracer(service: string) {
  const exporter = new OTLPTraceExporter({ url: `${collector.url}/v1/traces` });
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ "service.name": service }),
    spanProcessors: [new SimpleSpanProcessor({ exporter })],
  });
  endings.push(() => provider.shutdown());
  return provider.getTracer("test");
}

beforeAll(async () => {
  receiver = await startOtlpReceiver();
  endings.push(() => receiver.stop());
  collector = await startCollector(receiver.url);
  endings.push(() => collector.stop());
  const tracer = startTracer("backend");
  const backend = await startBackend((incoming, response) => {
    const parent = parseTraceParent([String(incoming.headers.traceparent ?? "")]);
    if (parent !== undefined) {
      const remote = { traceId: parent.traceId, spanId: parent.spanId, traceFlags: 1, isRemote: true };
      tracer.startSpan("work", { kind: SpanKind.SERVER }, trace.setSpanContext(ROOT_CONTEXT, remote)).end();
    }
    response.end("ok");
  });
  endings.push(() => backend.stop());
  gateway = await startGateway(`
node_id: gw
workers: 1
lease: { timeout_ms: 10000 }
otel: { endpoint: "${collector.url}", sample_ratio: 0, metrics_interval_ms: 1000, traces_interval_ms: 100 }
apps:
  video: { guaranteed: 100000, burst: 100000 }
  small: { guaranteed: 0.001, burst: 2 }
upstreams: { backend: { targets: ["127.0.0.1:${backend.port}"] } }
routes: [{ path: /, upstream: backend }]
`);
  endings.push(() => gateway.stop());
});
afterAll(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

async function ask(app: string, headers: Record<string, string> = {}): Promise<number> {
  const { statusCode, body } = await request(`${gateway.url}/path`, { headers: { "x-app-id": app, ...headers } });
  await body.dump();
  return statusCode;
}

it("a collector gets a trace from the client through the gateway to the backend", async () => {
  const client = startTracer("client").startSpan("call", { kind: SpanKind.CLIENT });
  expect(await ask("video", { traceparent: formatTraceParent(client.spanContext()) })).toBe(200);
  client.end();
  const of = await spansOfTrace(receiver, client.spanContext().traceId);
  expect(of("client").parentId).toBe("");
  expect(of("tollgate").parentId).toBe(of("client").spanId);
  expect(of("backend").parentId).toBe(of("tollgate").spanId);
});

it("a collector gets the metrics with the counts of the clients", async () => {
  const statuses = [await ask("small"), await ask("small"), await ask("small")];
  const refused = statuses.filter((status) => status !== 200).length;
  expect(refused).toBeGreaterThan(0);
  await waitFor("requests", () => {
    const points = receiver.points.filter(({ name, attributes }) => {
      return name === "ratelimit_requests_total" && attributes.app_id === "small" && attributes.status === "rejected";
    });
    return points.at(-1)?.kind === "sum" && points.at(-1)?.value === refused;
  });
  expect(receiver.points.find(({ name }) => name === "ratelimit_check_latency_seconds")?.kind).toBe("histogram");
});
