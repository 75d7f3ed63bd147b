/** One HTTP/2 connection, as a server has it (RFC 9113): streams in, one answer each out, sent together where they come together. */
import type { Socket } from "node:net";
import type { Log } from "../../../shared/log.js";
import * as h2 from "./frames.js";
import { broken, ConnectionError, createFrameReader, withoutPadding } from "./frames.js";
import { HpackDecoder, HpackError, MOST_LIST_BYTES } from "./hpack.js";
import { Sending } from "./sending.js";
import { Http2Stream, newHead, noteHeader, type StreamHandler } from "./stream.js";

export interface Http2ConnectionOptions {
  /** A request has begun: who hears the rest of it. */
  took(stream: Http2Stream): StreamHandler;
  log: Log;
}

const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");
const MOST_STREAMS = 10_000;
/** What callers may send before they are allowed more. All of it is heard at once, so nothing waits here. */
const STREAM_WINDOW = 1_048_576;
const CONNECTION_WINDOW = 16 * 1_048_576;
const FIRST_WINDOW = 65_535;
const MOST_CONTINUATIONS = 64;
const LARGEST_ID = 0x7fff_ffff;
/** The ping that tells whether the caller has heard that no more is taken. */
const LAST_CALL = Buffer.from("lastcall", "latin1");
/** So long a caller is listened to, and not heard, after it broke the rules. */
const LINGER_MS = 1_000;

const ownSettings = h2.settingsPayload([
  [h2.SETTINGS_MAX_CONCURRENT_STREAMS, MOST_STREAMS],
  [h2.SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW],
  [h2.SETTINGS_MAX_HEADER_LIST_SIZE, MOST_LIST_BYTES],
]);

export class Http2Connection {
  private readonly streams = new Map<number, Http2Stream>();
  private readonly sending = new Sending((stream) => this.answered(stream));
  private readonly decoder = new HpackDecoder();
  private readonly read = createFrameReader((type, flags, id, payload) => this.frame(type, flags, id, payload));
  /** What came of it, while it is not whole. */
  private preface: Buffer | undefined = Buffer.alloc(0);
  private hasSettings = false;
  private lastId = 0;
  /** A header block whose end is still to come. */
  private block: { id: number; ends: boolean; parts: Buffer[]; bytes: number } | undefined;
  private receiveWindow = CONNECTION_WINDOW;
  private heardBytes = 0;
  private state: "open" | "last call" | "closing" | "closed" = "open";
  private receiving = false;
  private flushing = false;

  constructor(
    private readonly socket: Socket,
    private readonly options: Http2ConnectionOptions,
  ) {
    const { output } = this.sending;
    output.frame(h2.SETTINGS, 0, 0, ownSettings);
    output.number(h2.WINDOW_UPDATE, 0, CONNECTION_WINDOW - FIRST_WINDOW);
    socket.on("data", (chunk: Buffer) => this.receive(chunk));
    socket.on("drain", () => socket.resume());
    socket.on("error", () => {});
    socket.on("end", () => this.callerEnded());
    socket.on("close", () => this.lost());
    this.flush();
  }

  /** Takes no new streams, and ends when those that run have ended. */
  close(): void {
    if (this.state !== "open") return;
    this.state = "last call";
    // What is on its way here is still taken: which one was the last is said when the caller has heard this.
    this.sending.goAway(LARGEST_ID, h2.NO_ERROR);
    this.sending.output.frame(h2.PING, 0, 0, LAST_CALL);
    this.flush();
  }

  /** For a stream: see there. */
  answer(stream: Http2Stream, head: Buffer): void {
    this.sending.answer(stream, head);
    this.flushSoon();
  }

  private receive(chunk: Buffer): void {
    if (this.state === "closed") return;
    this.receiving = true;
    try {
      if (this.preface === undefined) this.read(chunk);
      else this.readPreface(Buffer.concat([this.preface, chunk]));
    } catch (error) {
      this.fail(error);
    }
    this.receiving = false;
    this.flush();
  }

  private readPreface(begun: Buffer): void {
    const length = Math.min(begun.length, PREFACE.length);
    if (begun.compare(PREFACE, 0, length, 0, length) !== 0) throw broken("the connection does not begin as one");
    this.preface = length < PREFACE.length ? begun : undefined;
    if (this.preface === undefined) this.read(begun.subarray(PREFACE.length));
  }

  private frame(type: number, flags: number, id: number, payload: Buffer): void {
    if (!this.hasSettings && type !== h2.SETTINGS) throw broken("the first frame is none of settings");
    if (this.block !== undefined && (type !== h2.CONTINUATION || id !== this.block.id)) {
      throw broken("a header block is interrupted");
    }
    if (type === h2.DATA) this.data(flags, id, payload);
    else if (type === h2.HEADERS) this.headers(flags, id, payload);
    else if (type === h2.CONTINUATION) this.continuation(flags, payload);
    else if (type === h2.RST_STREAM) this.resetByCaller(id, payload);
    else if (type === h2.SETTINGS) this.settings(flags, id, payload);
    else if (type === h2.PING) this.ping(flags, id, payload);
    else if (type === h2.WINDOW_UPDATE) this.windowUpdate(id, payload);
    else if (type === h2.PUSH_PROMISE) throw broken("a caller cannot push");
  }

  private headers(flags: number, id: number, payload: Buffer): void {
    if (id % 2 === 0) throw broken("a stream of a caller has an odd number");
    const fragment = withoutPadding(flags, payload);
    const skipped = (flags & h2.WITH_PRIORITY) === 0 ? 0 : 5;
    if (fragment.length < skipped) throw broken("a frame of headers is too short");
    const ends = (flags & h2.END_STREAM) !== 0;
    const begun = skipped === 0 ? fragment : fragment.subarray(skipped);
    if ((flags & h2.END_HEADERS) !== 0) this.request(id, ends, begun);
    else this.block = { id, ends, parts: [begun], bytes: begun.length };
  }

  private continuation(flags: number, payload: Buffer): void {
    const { block } = this;
    if (block === undefined) throw broken("a header block goes on that was not begun");
    block.parts.push(payload);
    block.bytes += payload.length;
    if (block.bytes > MOST_LIST_BYTES || block.parts.length > MOST_CONTINUATIONS) {
      throw new ConnectionError(h2.ENHANCE_YOUR_CALM, "the headers are too large");
    }
    if ((flags & h2.END_HEADERS) === 0) return;
    this.block = undefined;
    this.request(block.id, block.ends, Buffer.concat(block.parts));
  }

  /** Each block is decoded, wanted or not: the decoder must see all that the caller's encoder has said. */
  private request(id: number, ends: boolean, block: Buffer): void {
    const head = newHead();
    this.decoder.decode(block, (name, value) => noteHeader(head, name, value));
    const isNew = id > this.lastId;
    if (isNew) this.lastId = id;
    if (!isNew) this.requestTrailers(id, ends);
    else if (this.state === "closing") return;
    else if (this.streams.size >= MOST_STREAMS) this.sending.reset(id, h2.REFUSED_STREAM);
    else if (head.method === "" || head.path === "") this.sending.reset(id, h2.PROTOCOL_ERROR);
    else {
      const stream = new Http2Stream(this, id, head, STREAM_WINDOW, this.sending.streamWindow);
      stream.isEnded = ends;
      this.streams.set(id, stream);
      stream.handler = this.options.took(stream);
      if (ends && !stream.isAnswered) stream.handler.end();
    }
  }

  private requestTrailers(id: number, ends: boolean): void {
    const stream = this.streams.get(id);
    if (stream === undefined) return;
    if (stream.isEnded) this.reset(stream, h2.STREAM_CLOSED);
    else if (!ends) this.reset(stream, h2.PROTOCOL_ERROR);
    else this.ended(stream);
  }

  private data(flags: number, id: number, payload: Buffer): void {
    this.heard(payload.length);
    const stream = this.streams.get(id);
    if (stream === undefined) {
      if (id === 0 || id > this.lastId) throw broken("data of a stream that was not begun");
      return;
    }
    stream.receiveWindow -= payload.length;
    const bytes = withoutPadding(flags, payload);
    if (stream.isEnded) this.reset(stream, h2.STREAM_CLOSED);
    else if (stream.receiveWindow < 0) this.reset(stream, h2.FLOW_CONTROL_ERROR);
    else {
      if (!stream.isAnswered && bytes.length > 0) stream.handler!.data(bytes);
      if ((flags & h2.END_STREAM) !== 0) this.ended(stream);
      else if (!stream.isClosed) this.heardOf(stream, payload.length);
    }
  }

  private heard(bytes: number): void {
    this.receiveWindow -= bytes;
    this.heardBytes += bytes;
    if (this.receiveWindow < 0) throw new ConnectionError(h2.FLOW_CONTROL_ERROR, "more data than allowed");
    if (this.heardBytes < CONNECTION_WINDOW / 2) return;
    this.sending.output.number(h2.WINDOW_UPDATE, 0, this.heardBytes);
    this.receiveWindow += this.heardBytes;
    this.heardBytes = 0;
  }

  private heardOf(stream: Http2Stream, bytes: number): void {
    stream.heardBytes += bytes;
    if (stream.heardBytes < STREAM_WINDOW / 2) return;
    this.sending.output.number(h2.WINDOW_UPDATE, stream.id, stream.heardBytes);
    stream.receiveWindow += stream.heardBytes;
    stream.heardBytes = 0;
  }

  private ended(stream: Http2Stream): void {
    stream.isEnded = true;
    if (!stream.isAnswered) stream.handler!.end();
  }

  /** What the caller still has to say is not wanted. */
  private answered(stream: Http2Stream): void {
    if (!stream.isEnded) this.sending.reset(stream.id, h2.NO_ERROR);
    this.forget(stream);
  }

  private forget(stream: Http2Stream): void {
    stream.isClosed = true;
    this.streams.delete(stream.id);
    this.sending.forget(stream);
    if (!stream.isAnswered) stream.handler?.lost();
  }

  private reset(stream: Http2Stream, code: number): void {
    this.sending.reset(stream.id, code);
    this.forget(stream);
  }

  private resetByCaller(id: number, payload: Buffer): void {
    if (payload.length !== 4) throw new ConnectionError(h2.FRAME_SIZE_ERROR, "a reset has four bytes");
    if (id === 0 || id > this.lastId) throw broken("a stream is reset that was not begun");
    const stream = this.streams.get(id);
    if (stream !== undefined) this.forget(stream);
  }

  private settings(flags: number, id: number, payload: Buffer): void {
    if (id !== 0) throw broken("settings belong to the connection");
    this.hasSettings = true;
    const isAck = (flags & h2.ACK) !== 0;
    if (payload.length % 6 !== 0 || (isAck && payload.length > 0)) {
      throw new ConnectionError(h2.FRAME_SIZE_ERROR, "settings have six bytes each");
    }
    if (!isAck) this.sending.settings(payload, this.streams.values());
  }

  private ping(flags: number, id: number, payload: Buffer): void {
    if (id !== 0) throw broken("a ping belongs to the connection");
    if (payload.length !== 8) throw new ConnectionError(h2.FRAME_SIZE_ERROR, "a ping has eight bytes");
    if ((flags & h2.ACK) === 0) this.sending.output.frame(h2.PING, h2.ACK, 0, payload);
    else if (this.state === "last call" && payload.equals(LAST_CALL)) {
      this.state = "closing";
      this.sending.goAway(this.lastId, h2.NO_ERROR);
    }
  }

  private windowUpdate(id: number, payload: Buffer): void {
    if (payload.length !== 4) throw new ConnectionError(h2.FRAME_SIZE_ERROR, "a window has four bytes");
    const more = payload.readUInt32BE(0) & 0x7fff_ffff;
    const stream = this.streams.get(id);
    if (id === 0) this.sending.grow(more);
    else if (id > this.lastId) throw broken("a window of a stream that was not begun");
    else if (stream === undefined) return;
    else if (more === 0) this.reset(stream, h2.PROTOCOL_ERROR);
    else if (stream.sendWindow + more > h2.LARGEST_WINDOW) this.reset(stream, h2.FLOW_CONTROL_ERROR);
    else {
      stream.sendWindow += more;
      this.sending.resume();
    }
  }

  private fail(error: unknown): void {
    const known = error instanceof ConnectionError || error instanceof HpackError;
    if (known) this.options.log.debug({ reason: error.message }, "a connection of an Envoy broke the rules");
    else this.options.log.error({ err: error }, "a connection of an Envoy failed");
    const otherwise = error instanceof HpackError ? h2.COMPRESSION_ERROR : h2.INTERNAL_ERROR;
    this.sending.goAway(this.lastId, error instanceof ConnectionError ? error.code : otherwise);
    this.flush();
    this.lost();
    this.socket.end();
    // What the caller still sends is read and dropped for a moment, or it might not see why it was sent away.
    this.socket.resume();
    setTimeout(() => this.socket.destroy(), LINGER_MS).unref();
  }

  /** Requests that are whole are still answered; the others never will be. */
  private callerEnded(): void {
    for (const stream of [...this.streams.values()]) if (!stream.isEnded) this.forget(stream);
    if (this.state !== "closed") this.state = "closing";
    this.flush();
  }

  /** Nobody is left to answer to. */
  private lost(): void {
    this.state = "closed";
    for (const stream of [...this.streams.values()]) this.forget(stream);
  }

  /** Answers that are ready in the same turn share one write; the turn's promises come before this. */
  private flushSoon(): void {
    if (this.receiving || this.flushing) return;
    this.flushing = true;
    process.nextTick(() => {
      this.flushing = false;
      this.flush();
    });
  }

  private flush(): void {
    const { output } = this.sending;
    // While the caller does not read, nothing more of it is heard.
    if (!output.isEmpty && this.socket.writable && !this.socket.write(output.take())) this.socket.pause();
    if (this.state === "closing" && this.streams.size === 0) this.socket.end();
  }
}
