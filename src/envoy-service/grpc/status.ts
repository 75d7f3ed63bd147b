/** The outcomes of a gRPC call, and the refusal that a method throws; never anything else reaches a caller. */

export const GRPC_OK = 0;
export const CANCELLED = 1;
export const UNKNOWN = 2;
export const INVALID_ARGUMENT = 3;
export const DEADLINE_EXCEEDED = 4;
export const NOT_FOUND = 5;
export const PERMISSION_DENIED = 7;
export const RESOURCE_EXHAUSTED = 8;
export const UNIMPLEMENTED = 12;
export const INTERNAL = 13;
export const UNAVAILABLE = 14;
export const UNAUTHENTICATED = 16;

/** What a method throws to refuse a call. The text is for the caller to read. */
export class GrpcError extends Error {
  constructor(
    readonly status: number,
    text: string,
  ) {
    super(text);
  }
}

/** As grpc-message has it: UTF-8 whose bytes outside of printable ASCII, and the percent sign, are escaped. */
export function percentEncoded(text: string): string {
  if (/^[ -$&-~]*$/.test(text)) return text;
  let encoded = "";
  for (const byte of Buffer.from(text, "utf8")) {
    const plain = byte >= 0x20 && byte <= 0x7e && byte !== 0x25;
    encoded += plain ? String.fromCharCode(byte) : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }
  return encoded;
}

const TIMEOUT_UNITS: Record<string, number> = { H: 3_600_000, M: 60_000, S: 1_000, m: 1, u: 1e-3, n: 1e-6 };

/** The header grpc-timeout in milliseconds; undefined where it says nothing that can be read. */
export function timeoutMs(header: string): number | undefined {
  const match = /^([0-9]{1,8})([HMSmun])$/.exec(header);
  return match === null ? undefined : Number(match[1]) * TIMEOUT_UNITS[match[2]!]!;
}
