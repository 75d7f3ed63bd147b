/** The parts of a request and its response that the proxy uses. HTTP/1.1 has those of node:http, HTTP/2 those of `http2/stream.ts`. */
import type { IncomingMessage, ServerResponse } from "node:http";

type Head = "rawHeaders" | "method" | "url" | "httpVersion" | "httpVersionMinor";

export interface ClientRequest extends Pick<IncomingMessage, Head> {
  readonly headers: { upgrade?: string | undefined };
  /** All of it was received. */
  readonly complete: boolean;
  on(event: "data", listener: (chunk: Buffer) => void): this;
  on(event: "end", listener: () => void): this;
  off(event: "data", listener: (chunk: Buffer) => void): this;
  off(event: "end", listener: () => void): this;
  pause(): unknown;
  resume(): unknown;
}

export interface ClientResponse
  extends Pick<ServerResponse, "headersSent" | "destroyed" | "chunkedEncoding" | "flushHeaders" | "writeContinue"> {
  writeEarlyHints(hints: { link: string[] }): void;
  writeHead(status: number, headers: string[]): unknown;
  /** False: wait for "drain". */
  write(chunk: Buffer): boolean;
  addTrailers(trailers: [string, string][]): void;
  end(body?: string): unknown;
  on(event: "drain", listener: () => void): unknown;
}
