/** A request with plain values, as callers of the library state it, and the attributes that decisions depend on. */
import { type CostProfile, UNKNOWN_LENGTH } from "../../core/cost.js";
import { ANONYMOUS_USER } from "../../core/identity.js";
import type { RequestAttributes } from "../../limit-rules/limit-rules.js";
import { bytesOf } from "../limits/limit-options.js";

/** As in Node (`headers` or `headersDistinct`), in fetch, or a plain object. */
export type RequestHeaders = Headers | { readonly [name: string]: string | readonly string[] | undefined };

/** What is known of a request. Everything may be left out. */
export interface CheckedRequest {
  /** Who pays, if the limiter has `apps`. Take it from a checked credential: a client must not be able to choose it. */
  app?: string | undefined;
  /** Requests without a user share the buckets of the user "anonymous". */
  user?: string | undefined;
  /** The client's address. */
  ip?: string | undefined;
  /** In upper case. Default: GET. */
  method?: string | undefined;
  /** As in the Host header. */
  host?: string | undefined;
  /** As received; a query is ignored. Default: "/". */
  path?: string | undefined;
  /** The path by which the server chose what serves the request, if it has rewritten `path`. */
  routedPath?: string | undefined;
  headers?: RequestHeaders | undefined;
  /** Bytes of the body, or `UNKNOWN_LENGTH`. Default: as `headers` say, otherwise 0. */
  contentLength?: number | undefined;
  /** The prices of this request, instead of those of its app. */
  profile?: CostProfile | undefined;
}

/** Headers are looked up only if a limit depends on them. */
class Attributes implements RequestAttributes {
  readonly app: string;
  readonly user: string;
  readonly method: string;
  readonly host: string;
  readonly path: string;
  readonly routedPath: string | undefined;
  readonly address: string;
  readonly profile: CostProfile | undefined;
  readonly #request: CheckedRequest;

  constructor(request: CheckedRequest) {
    this.app = request.app ?? "";
    this.user = inBytes(request.user ?? ANONYMOUS_USER);
    this.method = request.method ?? "GET";
    this.host = inBytes(request.host ?? "");
    this.path = inBytes(request.path ?? "/");
    this.routedPath = request.routedPath === undefined ? undefined : inBytes(request.routedPath);
    this.address = request.ip ?? "";
    this.profile = request.profile;
    this.#request = request;
  }

  headerCount(name: string): number {
    return Math.min(valuesOf(this.#request.headers, name).length, 2);
  }

  header(name: string): string {
    return inBytes(valuesOf(this.#request.headers, name)[0] ?? "");
  }
}

export const attributesOf = (request: CheckedRequest): RequestAttributes => new Attributes(request);

/** Values have one character per byte, as headers do. A text with other characters is none from a header. */
export const inBytes = (text: string): string => (/[^\0-\xff]/.test(text) ? bytesOf(text) : text);

/** Of any implementation, not only of this realm's `Headers`. */
const isFetchHeaders = (headers: RequestHeaders): headers is Headers => typeof headers.get === "function";

/** `name` is in lower case. */
function valuesOf(headers: RequestHeaders | undefined, name: string): readonly string[] {
  if (headers === undefined) return [];
  if (isFetchHeaders(headers)) return listOf(headers.get(name) ?? undefined);
  const value = Object.hasOwn(headers, name) ? headers[name] : undefined;
  if (value !== undefined) return listOf(value);
  return Object.entries(headers).flatMap(([own, other]) => (own.toLowerCase() === name ? listOf(other) : []));
}

const listOf = (value: string | readonly string[] | undefined): readonly string[] =>
  typeof value === "string" ? [value] : (value ?? []);

export function contentLengthOf({ contentLength, headers }: CheckedRequest): number {
  if (contentLength !== undefined || headers === undefined) return contentLength ?? 0;
  return declaredLength(valuesOf(headers, "content-length")[0], valuesOf(headers, "transfer-encoding")[0]);
}

/** The length of a body as its headers state it; UNKNOWN_LENGTH, or NaN if it is invalid. */
export function declaredLength(contentLength: string | undefined, transferEncoding: string | undefined): number {
  if (transferEncoding !== undefined) return UNKNOWN_LENGTH;
  if (contentLength === undefined) return 0;
  return /^[0-9]+$/.test(contentLength) ? Number(contentLength) : Number.NaN;
}
