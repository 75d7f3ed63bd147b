/** What a connection has to send: frames that go out together, and answers that wait until the caller takes more. */
import * as h2 from "./frames.js";
import { ConnectionError, Output } from "./frames.js";
import type { Http2Stream } from "./stream.js";

const FIRST_WINDOW = 65_535;
const NOTHING = Buffer.alloc(0);

export class Sending {
  readonly output = new Output();
  /** Of a stream that begins now. */
  streamWindow = FIRST_WINDOW;
  private window = FIRST_WINDOW;
  private mostFrameBytes = h2.FRAME_BYTES;
  private readonly blocked = new Set<Http2Stream>();

  /** `sent` is told of each answer whose last frame is on its way. */
  constructor(private readonly sent: (stream: Http2Stream) => void) {}

  answer(stream: Http2Stream, head: Buffer): void {
    const isAll = stream.body.length === 0 && stream.trailers === undefined;
    this.output.frame(h2.HEADERS, h2.END_HEADERS | (isAll ? h2.END_STREAM : 0), stream.id, head);
    if (isAll) this.sent(stream);
    else this.body(stream);
  }

  reset(id: number, code: number): void {
    this.output.number(h2.RST_STREAM, id, code);
  }

  goAway(lastId: number, code: number): void {
    const payload = Buffer.alloc(8);
    payload.writeUInt32BE(lastId, 0);
    payload.writeUInt32BE(code, 4);
    this.output.frame(h2.GOAWAY, 0, 0, payload);
  }

  forget(stream: Http2Stream): void {
    this.blocked.delete(stream);
  }

  /** The caller's settings, six bytes each. */
  settings(payload: Buffer, streams: Iterable<Http2Stream>): void {
    for (let at = 0; at < payload.length; at += 6) {
      const name = payload.readUInt16BE(at);
      const value = payload.readUInt32BE(at + 2);
      if (name === h2.SETTINGS_INITIAL_WINDOW_SIZE) this.resizeStreams(value, streams);
      else if (name === h2.SETTINGS_MAX_FRAME_SIZE) {
        if (value < h2.FRAME_BYTES || value > 0xff_ffff) throw h2.broken("frames of such a size do not exist");
        this.mostFrameBytes = value;
      }
    }
    this.output.frame(h2.SETTINGS, h2.ACK, 0, NOTHING);
    this.resume();
  }

  /** The caller takes more of the whole connection. */
  grow(bytes: number): void {
    if (bytes === 0) throw h2.broken("a window grows by nothing");
    this.window += bytes;
    if (this.window > h2.LARGEST_WINDOW) throw new ConnectionError(h2.FLOW_CONTROL_ERROR, "a window is too large");
    this.resume();
  }

  resume(): void {
    if (this.blocked.size === 0) return;
    const waiting = [...this.blocked];
    this.blocked.clear();
    for (const stream of waiting) this.body(stream);
  }

  private resizeStreams(window: number, streams: Iterable<Http2Stream>): void {
    if (window > h2.LARGEST_WINDOW) throw new ConnectionError(h2.FLOW_CONTROL_ERROR, "a window is too large");
    for (const stream of streams) stream.sendWindow += window - this.streamWindow;
    this.streamWindow = window;
  }

  private body(stream: Http2Stream): void {
    const { body, trailers, id } = stream;
    while (stream.sentBytes < body.length) {
      const room = Math.min(this.window, stream.sendWindow, this.mostFrameBytes);
      if (room <= 0) {
        this.blocked.add(stream);
        return;
      }
      const to = Math.min(stream.sentBytes + room, body.length);
      const isLast = to === body.length && trailers === undefined;
      this.output.frame(h2.DATA, isLast ? h2.END_STREAM : 0, id, body, stream.sentBytes, to);
      this.window -= to - stream.sentBytes;
      stream.sendWindow -= to - stream.sentBytes;
      stream.sentBytes = to;
    }
    if (trailers !== undefined) this.output.frame(h2.HEADERS, h2.END_HEADERS | h2.END_STREAM, id, trailers);
    this.sent(stream);
  }
}
