/** gRPC status codes, and the error that ends a call with one of them. */

export const INVALID_ARGUMENT = 3;
export const DEADLINE_EXCEEDED = 4;
export const NOT_FOUND = 5;
export const PERMISSION_DENIED = 7;
export const RESOURCE_EXHAUSTED = 8;
export const UNIMPLEMENTED = 12;
export const INTERNAL = 13;
export const UNAVAILABLE = 14;
export const UNAUTHENTICATED = 16;

/** Ends a call with a status. The text is sent to the caller. */
export class GrpcError extends Error {
  constructor(
    readonly status: number,
    text: string,
  ) {
    super(text);
  }
}

/** Encodes a grpc-message: UTF-8 with percent escapes for all but printable ASCII. */
export function percentEncoded(text: string): string {
  return Buffer.from(text)
    .toString()
    .replace(/[^ -$&-~]/gu, encodeURIComponent);
}

const UNIT_MS: Record<string, number> = { H: 3_600_000, M: 60_000, S: 1_000, m: 1, u: 1e-3, n: 1e-6 };
/** Longer timers would fire at once. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/** Reads a grpc-timeout header; undefined without one. */
export function timeoutMs(header: string | string[] | undefined): number | undefined {
  if (header === undefined) return undefined;
  const match = /^([0-9]{1,8})([HMSmun])$/.exec(String(header));
  if (match === null) throw new GrpcError(INTERNAL, "invalid grpc-timeout");
  return Math.min(Number(match[1]) * UNIT_MS[match[2]!]!, MAX_TIMEOUT_MS);
}
