/** Makes an HTTP/2 stream look like an HTTP/1.1 connection with one request and its response. */
import { constants, type ServerHttp2Stream } from "node:http2";
import type { ClientSocket } from "../http/client-connections.js";
import type { ClientRequest, ClientResponse } from "../http/client-messages.js";
import { pairsOf, readStreamHead, type StreamHead, streamHeaders } from "./stream-head.js";

export class StreamRequest implements ClientRequest {
  // The rules of HTTP/1.1 apply to the translated head.
  readonly httpVersion = "1.1";
  readonly httpVersionMinor = 1;
  readonly headers = {};
  readonly method: string;
  readonly url: string;
  readonly rawHeaders: string[];
  readonly head: StreamHead;

  constructor(
    private readonly stream: ServerHttp2Stream,
    raw: readonly string[],
  ) {
    this.head = readStreamHead(raw, !stream.endAfterHeaders);
    this.method = this.head.method;
    this.url = this.head.url;
    this.rawHeaders = this.head.rawHeaders;
  }

  get complete(): boolean {
    return this.stream.endAfterHeaders || this.stream.readableEnded;
  }

  on(event: string, listener: (...values: never[]) => void): this {
    this.stream.on(event, listener as (...values: unknown[]) => void);
    return this;
  }

  off(event: string, listener: (...values: never[]) => void): this {
    this.stream.off(event, listener as (...values: unknown[]) => void);
    return this;
  }

  pause(): void {
    this.stream.pause();
  }

  resume(): void {
    this.stream.resume();
  }
}

export class StreamResponse implements ClientResponse {
  /** The response has no declared length: trailers may follow. */
  chunkedEncoding = false;
  private trailers: [string, string][] = [];

  constructor(
    private readonly stream: ServerHttp2Stream,
    private readonly request: StreamRequest,
  ) {}

  get headersSent(): boolean {
    return this.stream.headersSent;
  }

  get destroyed(): boolean {
    return this.stream.destroyed || this.stream.closed;
  }

  writeContinue(): void {
    this.inform({ ":status": 100 });
  }

  writeEarlyHints({ link }: { link: string | string[] }): void {
    this.inform({ ":status": 103, link });
  }

  private inform(headers: Record<string, number | string | string[]>): void {
    if (!this.destroyed && !this.headersSent) this.stream.additionalHeaders(headers);
  }

  writeHead(status: number, flat: string[]): void {
    if (this.destroyed) return;
    const headers = streamHeaders(pairsOf(flat));
    this.chunkedEncoding = headers["content-length"] === undefined;
    this.stream.respond({ ...headers, ":status": status }, { waitForTrailers: this.chunkedEncoding });
    if (!this.chunkedEncoding) return;
    this.stream.once("wantTrailers", () => this.stream.sendTrailers(streamHeaders(this.trailers)));
  }

  /** `writeHead` has sent them. */
  flushHeaders(): void {}

  write(chunk: Buffer): boolean {
    return this.stream.write(chunk);
  }

  addTrailers(trailers: [string, string][]): void {
    this.trailers = trailers;
  }

  end(body?: string): void {
    const { stream } = this;
    // Responses without a body have ended with their head.
    if (!stream.writableEnded) {
      if (body === undefined) stream.end();
      else stream.end(body);
    }
    // RFC 9113, 8.1: tells the client to send no more of the request. It follows the response.
    if (!this.request.complete) stream.close(constants.NGHTTP2_NO_ERROR);
  }

  on(event: "drain", listener: () => void): void {
    this.stream.on(event, listener);
  }
}

/** Closing it resets the stream; the connection stays open. */
export class StreamSocket implements ClientSocket {
  /** By this side. */
  isReset = false;
  /** A stream has one request: what follows it is not counted. */
  readonly bytesRead = 0;

  constructor(private readonly stream: ServerHttp2Stream) {}

  get writable(): boolean {
    return !this.stream.closed;
  }

  get writableLength(): number {
    return this.stream.writableLength;
  }

  destroy(): void {
    this.isReset = true;
    // Not `close`, which would end the response before the reset. The client gets INTERNAL_ERROR.
    this.stream.destroy(new Error("aborted"));
  }

  resetAndDestroy(): void {
    this.destroy();
  }

  /** `StreamResponse.end` closes the stream. */
  destroySoon(): void {}
}
