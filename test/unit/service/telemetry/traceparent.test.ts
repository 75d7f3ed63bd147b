/** `traceparent` of W3C Trace Context: valid headers are read, all others begin a new trace. */
import { describe, expect, it } from "vitest";
import { formatTraceParent, parseTraceParent } from "../../../../src/service/telemetry/tracing.js";

const traceId = "0af7651916cd43dd8448eb211c80319c";
const spanId = "b7ad6b7169203331";

describe("traceparent", () => {
  it("is read with its flag, also in a later version with more fields", () => {
    expect(parseTraceParent([`00-${traceId}-${spanId}-01`])).toEqual({ traceId, spanId, isSampled: true });
    expect(parseTraceParent([`00-${traceId}-${spanId}-02`])).toEqual({ traceId, spanId, isSampled: false });
    expect(parseTraceParent([`01-${traceId}-${spanId}-03-more`])).toEqual({ traceId, spanId, isSampled: true });
  });

  it("is read as it is written", () => {
    expect(parseTraceParent([formatTraceParent({ traceId, spanId })])).toEqual({ traceId, spanId, isSampled: true });
  });

  it.each([
    ["missing", []],
    ["sent twice", [`00-${traceId}-${spanId}-01`, `00-${traceId}-${spanId}-01`]],
    ["empty", [""]],
    ["too short", [`00-${traceId.slice(1)}-${spanId}-01`]],
    ["in upper case", [`00-${traceId.toUpperCase()}-${spanId}-01`]],
    ["without a trace", [`00-${"0".repeat(32)}-${spanId}-01`]],
    ["without a span", [`00-${traceId}-${"0".repeat(16)}-01`]],
    ["of version 00 with more fields", [`00-${traceId}-${spanId}-01-more`]],
    ["of the invalid version", [`ff-${traceId}-${spanId}-01`]],
  ])("is ignored if it is %s", (_, values) => {
    expect(parseTraceParent(values)).toBeUndefined();
  });
});
