/** The header `traceparent` of W3C Trace Context. */

export interface TraceParent {
  traceId: string;
  spanId: string;
  isSampled: boolean;
}

const PATTERN = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const SAMPLED = 1;

/** Undefined if the header is missing, sent twice or invalid: then a new trace begins. */
export function parseTraceParent(values: readonly string[]): TraceParent | undefined {
  const [text = "", ...more] = values;
  const [, version, traceId, spanId, flags = "", rest] = PATTERN.exec(text) ?? [];
  if (more.length > 0 || traceId === undefined || spanId === undefined) return undefined;
  // Later versions may have more fields.
  if (version === "ff" || (version === "00" && rest !== undefined)) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & SAMPLED) === SAMPLED };
}

export function formatTraceParent({ traceId, spanId }: { traceId: string; spanId: string }): string {
  return `00-${traceId}-${spanId}-01`;
}
