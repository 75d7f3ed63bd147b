/** What the middleware of all frameworks does: checks a request, and says how to respond. */
import { gatewayRefusal, type Refusal } from "../../../core/refusals.js";
import { ALL_HEADERS, type HeaderOptions } from "../../../core/response-headers.js";
import type { CheckedRequest } from "../checked-request.js";
import type { LibraryLimiter } from "../library.js";
import { type Allowed, headersWith, type Result, refusalOf } from "../results.js";

/** Reads a value from a request. */
export type Extractor<Request> = ((request: Request) => string | undefined) | undefined;

/** `Request` is the framework's. Undefined options have their defaults. */
export interface MiddlewareOptions<Request> {
  limiter: Pick<LibraryLimiter, "check" | "settle">;
  /**
   * The app that pays. Use an authenticated value, never an unchecked header. Undefined is handled like an app that is
   * not listed: `default` pays, or the request is refused with `unknown_app`.
   */
  app?: Extractor<Request>;
  /** By default all requests are of the user "anonymous". */
  user?: Extractor<Request>;
  /** The client's address. By default that of the connection: set it if the server is behind a proxy. */
  ip?: Extractor<Request>;
  /** By default the Host header. */
  host?: Extractor<Request>;
  /** By default the target of the request. */
  path?: Extractor<Request>;
  /** Headers of responses; all unless given. Retry-After is sent with every refusal. */
  headers?: HeaderOptions | undefined;
}

/** Either `admitted` or `refusal` is set. */
export interface Verdict {
  headers: Record<string, string>;
  admitted?: Allowed | undefined;
  refusal?: Refusal | undefined;
}

/** A request as its framework describes it. */
export interface ReceivedRequest extends CheckedRequest {
  method: string;
  /** Frameworks read the target differently. */
  isInvalid: boolean;
}

const NAMES = ["limiter", "app", "user", "ip", "host", "path", "headers"];

function checkNames(options: object): void {
  for (const name of Object.keys(options)) {
    if (name === "attributes") {
      throw new TypeError(
        "attributes is now user, ip, host and path: instead of attributes: (request) => ({ user: a, address: b }) write user: (request) => a, ip: (request) => b",
      );
    }
    if (!NAMES.includes(name)) throw new TypeError(`${name} is not an option; there are ${NAMES.join(", ")}`);
  }
}

/** The check of a request: `from` is for the extractors, `received` says what the request itself says. */
export function createChecks<Request>(options: MiddlewareOptions<Request>) {
  checkNames(options);
  const { limiter, headers = ALL_HEADERS, app, user, ip, host, path } = options;
  const headersOf = headersWith(headers);
  const verdictOf = (result: Result): Verdict =>
    result.allowed
      ? { headers: headersOf(result), admitted: result }
      : { headers: headersOf(result), refusal: refusalOf(result) };
  return (from: Request, received: ReceivedRequest): Verdict | Promise<Verdict> => {
    if (received.isInvalid) return { headers: {}, refusal: gatewayRefusal("invalid_path") };
    received.app = app?.(from);
    received.user = user?.(from);
    received.ip = ip?.(from) ?? received.ip;
    received.host = host?.(from) ?? received.host;
    received.path = path?.(from) ?? received.path;
    const made = limiter.check(received);
    return made instanceof Promise ? made.then(verdictOf) : verdictOf(made);
  };
}
