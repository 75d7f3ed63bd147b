/** Spans of requests through the gateway, exported with OTLP: those that were refused, slow or sampled. */
import type { Attributes, Span, Tracer } from "@opentelemetry/api";
import type { OtelOptions } from "../../config/options/service.js";
import type { Verdict } from "../../planes/node/http/request-admission.js";
import type { RequestSpan, Tracing } from "../../planes/node/http/tracing.js";
import { printable } from "../../shared/printable.js";
import { attributesOf, EXPORT_TIMEOUT_MS, httpOptions, loaded, observe, type TelemetryOptions } from "./exporters.js";

export interface RunningTracing extends Tracing {
  /** Exports the last spans, for at most this long. */
  close(withinMs: number): Promise<void>;
}

/** Spans that wait for their export; further ones are dropped. */
const MOST_WAITING = 2_048;
const LONGEST_VALUE = 256;

type Reason = "refused" | "slow" | "sampled";

/** Undefined if traces are disabled. */
export async function startTracing(options: TelemetryOptions): Promise<RunningTracing | undefined> {
  const { otel } = options;
  if (otel.endpoint === "" || !otel.traces) return undefined;
  const [api, { resourceFromAttributes }, sdk, { OTLPTraceExporter }] = await loaded(
    Promise.all([
      import("@opentelemetry/api"),
      import("@opentelemetry/resources"),
      import("@opentelemetry/sdk-trace"),
      import("@opentelemetry/exporter-trace-otlp-proto"),
    ]),
  );
  const exporter = new OTLPTraceExporter(httpOptions(otel, "/v1/traces"));
  observe(exporter, "otlp_traces", options);
  const provider = new sdk.TracerProvider({
    resource: resourceFromAttributes(attributesOf(options)),
    // Whether a request is traced is decided here, after its decision.
    sampler: new sdk.AlwaysOnSampler(),
    spanLimits: { attributeValueLengthLimit: LONGEST_VALUE },
    spanProcessors: [
      new sdk.BatchSpanProcessor({
        exporter,
        maxQueueSize: MOST_WAITING,
        scheduledDelayMillis: otel.tracesIntervalMs,
        exportTimeoutMillis: EXPORT_TIMEOUT_MS,
      }),
    ],
  });
  const tracer = provider.getTracer("tollgate", options.version);
  const mayStart = perSecond(otel.maxSpansPerSecond);

  function contextOf(parent: TraceParent | undefined) {
    if (parent === undefined) return api.ROOT_CONTEXT;
    const { traceId, spanId } = parent;
    const spanContext = { traceId, spanId, traceFlags: api.TraceFlags.SAMPLED, isRemote: true };
    return api.trace.setSpanContext(api.ROOT_CONTEXT, spanContext);
  }

  return {
    now: () => performance.now(),
    decided(request, verdict, startedMs) {
      const decidedMs = performance.now();
      const parent = parseTraceParent(request.headerValues("traceparent"));
      const reason = reasonFor(otel, verdict, decidedMs - startedMs, parent);
      if (reason === undefined || !mayStart(decidedMs)) return undefined;
      const { decision } = verdict;
      const attributes: Attributes = {
        "http.request.method": request.method,
        "url.path": printable(request.path ?? ""),
        "tollgate.reason_to_trace": reason,
        "tollgate.decision.allowed": verdict.allowed,
        "tollgate.decision.ms": decidedMs - startedMs,
        "tollgate.app": verdict.app,
        ...(decision === undefined
          ? {}
          : {
              "tollgate.decision.code": decision.code,
              "tollgate.decision.source": decision.source,
              "tollgate.cost": decision.cost,
            }),
      };
      const startTime = performance.timeOrigin + startedMs;
      const kind = api.SpanKind.SERVER;
      const span = tracer.startSpan(request.method, { kind, startTime, attributes }, contextOf(parent));
      span.addEvent("decided", performance.timeOrigin + decidedMs);
      return requestSpan(span, api.SpanStatusCode.ERROR);
    },
    async close(withinMs) {
      let timer: NodeJS.Timeout | undefined;
      const expired = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, withinMs);
      });
      await Promise.race([provider.shutdown().catch(() => {}), expired]);
      clearTimeout(timer);
    },
  };
}

function requestSpan(span: ReturnType<Tracer["startSpan"]>, error: number): RequestSpan {
  return {
    traceparent: formatTraceParent(span.spanContext()),
    responded(status) {
      span.setAttribute("http.response.status_code", status);
      if (status >= 500) span.setStatus({ code: error } as Parameters<Span["setStatus"]>[0]);
    },
    end: () => span.end(),
  };
}

/** A trace that began elsewhere is followed if it is sampled; a share of the others begins here. */
function reasonFor(
  otel: OtelOptions,
  { allowed }: Verdict,
  ms: number,
  parent: TraceParent | undefined,
): Reason | undefined {
  if (!allowed) return "refused";
  if (ms >= otel.slowMs) return "slow";
  return (parent === undefined ? Math.random() < otel.sampleRatio : parent.isSampled) ? "sampled" : undefined;
}

/** Clients decide how many requests are refused or sampled, so the number of spans is bounded. */
function perSecond(most: number): (nowMs: number) => boolean {
  let second = 0;
  let count = 0;
  return (nowMs) => {
    const current = Math.floor(nowMs / 1000);
    if (current !== second) {
      second = current;
      count = 0;
    }
    return ++count <= most;
  };
}

export interface TraceParent {
  traceId: string;
  spanId: string;
  isSampled: boolean;
}

/** The header `traceparent` of W3C Trace Context. */
const TRACE_PARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const SAMPLED = 1;

/** Undefined if the header is missing, sent twice or invalid: then a new trace begins. */
export function parseTraceParent(values: readonly string[]): TraceParent | undefined {
  const [text = "", ...more] = values;
  const [, version, traceId, spanId, flags = "", rest] = TRACE_PARENT.exec(text) ?? [];
  if (more.length > 0 || traceId === undefined || spanId === undefined) return undefined;
  // Later versions may have more fields.
  if (version === "ff" || (version === "00" && rest !== undefined)) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & SAMPLED) === SAMPLED };
}

export function formatTraceParent({ traceId, spanId }: { traceId: string; spanId: string }): string {
  return `00-${traceId}-${spanId}-01`;
}
