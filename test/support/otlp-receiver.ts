/** Receives OTLP over HTTP with protobuf, as a collector does, and keeps what it got. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { loadSync, type ServiceDefinition } from "@grpc/proto-loader";
import { waitFor } from "./wait-for.js";

type Attributes = Record<string, string | number | boolean>;

export interface ReceivedSpan {
  service: string;
  traceId: string;
  spanId: string;
  /** Empty for the first span of a trace. */
  parentId: string;
  name: string;
  durationMs: number;
  attributes: Attributes;
  events: string[];
}

export interface ReceivedPoint {
  name: string;
  unit: string;
  kind: "sum" | "gauge" | "histogram";
  attributes: Attributes;
  /** Of a histogram its count. */
  value: number;
  sum?: number;
  buckets?: number[];
}

export interface OtlpReceiver {
  readonly url: string;
  readonly spans: ReceivedSpan[];
  /** The points of the last message. */
  points: ReceivedPoint[];
  /** Of the requests. */
  readonly authorizations: (string | undefined)[];
  stop(): Promise<void>;
}

interface KeyValue {
  key: string;
  value: Record<string, string | number | boolean>;
}

interface Resource {
  attributes: KeyValue[];
}

interface SentSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  startTimeUnixNano: number;
  endTimeUnixNano: number;
  attributes: KeyValue[];
  events: { name: string }[];
}

interface TraceRequest {
  resourceSpans: { resource: Resource; scopeSpans: { spans: SentSpan[] }[] }[];
}

interface SentPoint {
  attributes: KeyValue[];
  asDouble?: number;
  count?: number;
  sum?: number;
  bucketCounts?: number[];
}

interface SentMetric {
  name: string;
  unit: string;
  sum?: { dataPoints: SentPoint[] };
  gauge?: { dataPoints: SentPoint[] };
  histogram?: { dataPoints: SentPoint[] };
}

interface MetricsRequest {
  resourceMetrics: { scopeMetrics: { metrics: SentMetric[] }[] }[];
}

const attributesOf = (list: KeyValue[]): Attributes =>
  Object.fromEntries(list.map(({ key, value }) => [key, Object.values(value)[0] ?? ""]));

const hex = (base64 = "") => Buffer.from(base64, "base64").toString("hex");

export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const file = fileURLToPath(new URL("protos/otlp.proto", import.meta.url));
  const services = loadSync(file, { longs: Number, bytes: String, arrays: true });
  const decode = <T>(service: "Traces" | "Metrics", body: Buffer) =>
    (services[`otlp.${service}`] as ServiceDefinition).Export!.requestDeserialize(body) as T;
  const receiver = {
    spans: [] as ReceivedSpan[],
    points: [] as ReceivedPoint[],
    authorizations: [] as (string | undefined)[],
  };

  function readSpans(body: Buffer): void {
    for (const { resource, scopeSpans } of decode<TraceRequest>("Traces", body).resourceSpans) {
      for (const span of scopeSpans.flatMap(({ spans }) => spans)) {
        receiver.spans.push({
          service: String(attributesOf(resource.attributes)["service.name"]),
          traceId: hex(span.traceId),
          spanId: hex(span.spanId),
          parentId: hex(span.parentSpanId),
          name: span.name,
          durationMs: (span.endTimeUnixNano - span.startTimeUnixNano) / 1e6,
          attributes: attributesOf(span.attributes),
          events: span.events.map(({ name }) => name),
        });
      }
    }
  }

  function readMetrics(body: Buffer): void {
    const points: ReceivedPoint[] = [];
    for (const { scopeMetrics } of decode<MetricsRequest>("Metrics", body).resourceMetrics) {
      for (const metric of scopeMetrics.flatMap(({ metrics }) => metrics)) {
        for (const kind of ["sum", "gauge", "histogram"] as const) {
          for (const point of metric[kind]?.dataPoints ?? []) {
            points.push({
              ...{ name: metric.name, unit: metric.unit, kind, attributes: attributesOf(point.attributes) },
              ...(kind === "histogram"
                ? { value: point.count ?? 0, sum: point.sum ?? 0, buckets: point.bucketCounts ?? [] }
                : { value: point.asDouble ?? 0 }),
            });
          }
        }
      }
    }
    receiver.points = points;
  }

  const server = createServer((incoming, response) => {
    void buffer(incoming).then((body) => {
      receiver.authorizations.push(incoming.headers.authorization);
      const isProtobuf = incoming.headers["content-type"] === "application/x-protobuf";
      if (isProtobuf && incoming.url === "/v1/traces") readSpans(body);
      else if (isProtobuf && incoming.url === "/v1/metrics") readMetrics(body);
      else response.statusCode = 400;
      response.setHeader("content-type", "application/x-protobuf").end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return Object.assign(receiver, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async stop() {
      server.close();
      server.closeAllConnections();
    },
  });
}

/** Waits for the three spans of a trace from a client through the gateway to the backend. Returns the span of a service. */
export async function spansOfTrace(
  { spans }: OtlpReceiver,
  traceId: string,
): Promise<(service: string) => ReceivedSpan> {
  const found = await waitFor("three spans", () => {
    const some = spans.filter((span) => span.traceId === traceId);
    return some.length === 3 && some;
  });
  return (service) => found.find((span) => span.service === service)!;
}
