/** The interface between the proxy, which knows nothing about tokens, and the limiter, which knows nothing about sockets. */

/** The part of a request that a decision needs. */
export interface Arrival {
  method: string;
  /** Of the client's socket. */
  remoteAddress: string;
  /** The declared length of the body; 0: no body, UNKNOWN_LENGTH: chunked. */
  contentLength: number;
  /** The values of a header in order, as received; several if it was sent more than once. `name` in lower case. */
  headerValues(name: string): string[];
}

/** `headers` are added to the response, whether it is the backend's or the proxy's. */
export interface Verdict {
  allowed: boolean;
  headers: Record<string, string>;
  /** Of the response to a refused request. */
  status: number;
  body: string;
  /** The app that pays. */
  app: string;
}

export interface Admission {
  /** Most decisions are immediate. Never throws. */
  admit(arrival: Arrival): Verdict | Promise<Verdict>;
  /** Called exactly once when an admitted exchange has ended, with the bytes of both bodies. */
  settle(verdict: Verdict, requestBytes: number, responseBytes: number): void;
}
