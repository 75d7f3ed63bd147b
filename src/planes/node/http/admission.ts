/** What the reverse proxy asks of whoever decides: it knows nothing of tokens, and the decider nothing of sockets. */

/** A request as far as a decision needs it. Header values are as received; an absent header has no values. */
export interface Arrival {
  method: string;
  /** Of the socket's other end. */
  remoteAddress: string;
  /** The declared length of the body, 0 for none, UNKNOWN_LENGTH for a chunked one. */
  contentLength: number;
  /** All values of a header, in order, name in lower case: two values mean that it was sent twice. */
  headerValues(name: string): string[];
}

/** The answer. `headers` go onto the response, whoever makes it. */
export interface Verdict {
  allowed: boolean;
  headers: Record<string, string>;
  /** For a refusal: what the client gets. */
  status: number;
  body: string;
}

export interface Admission<V extends Verdict = Verdict> {
  /** At once where it can be, as most decisions can. Never throws. */
  admit(arrival: Arrival): V | Promise<V>;
  /** An admitted exchange has ended, however it ended: what moved in both directions. Called exactly once. */
  settle(verdict: V, requestBytes: number, responseBytes: number): void;
}
