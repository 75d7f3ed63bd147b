/** gRPC on HTTP/2 streams: unary and client-streaming calls, answered with a message or a status, whatever is sent. */
import type { Log } from "../../shared/log.js";
import { createFrames, type Frames, framed, wholeMessage } from "./framing.js";
import { headerBlock } from "./http2/hpack.js";
import type { Http2Stream, StreamHandler } from "./http2/stream.js";
import { ProtobufError } from "./protobuf.js";
import {
  DEADLINE_EXCEEDED,
  GrpcError,
  INTERNAL,
  INVALID_ARGUMENT,
  percentEncoded,
  timeoutMs,
  UNIMPLEMENTED,
} from "./status.js";

export { GrpcError } from "./status.js";

/** One message in, one message out. Throws a GrpcError to refuse, a ProtobufError for what is no message. */
export interface UnaryMethod {
  kind: "unary";
  /** As `/package.Service/Method`. */
  path: string;
  /** Anybody may call it, as health checks do. */
  isPublic?: boolean;
  /** The message is a view that is good until the call returns (its promise may come later): copy what is kept. */
  call(message: Uint8Array): Promise<Uint8Array> | Uint8Array;
}

/** Many messages in, one out. */
export interface ClientStreamMethod {
  kind: "client-stream";
  path: string;
  isPublic?: boolean;
  /** A stream begins. */
  open(): ClientStream;
}

export interface ClientStream {
  /** A view that is good until it returns. What it throws ends the stream with that status. */
  message(bytes: Uint8Array): void;
  /** The caller has said all: the answer to it. */
  ended(): Uint8Array;
  /** The stream is gone without an end: cut, cancelled, or refused by what `message` threw. */
  lost?(): void;
}

export type GrpcMethod = UnaryMethod | ClientStreamMethod;

export interface GrpcServerOptions {
  methods: readonly GrpcMethod[];
  mostMessageBytes(): number;
  log: Log;
}

export interface GrpcServer {
  /** Answers the call that this stream is. */
  take(stream: Http2Stream): StreamHandler;
  /** Ends the client streams, which would never end by themselves, with what they would be told at their end. */
  drain(): void;
}

export function createGrpcServer({ methods, mostMessageBytes, log }: GrpcServerOptions): GrpcServer {
  const byPath = new Map(methods.map((method) => [method.path, method]));
  const streaming = new Set<ClientStreamCall>();
  return {
    take(stream) {
      const { path, grpcTimeout } = stream.head;
      const method = byPath.get(path);
      if (method === undefined) return refuse(stream, new GrpcError(UNIMPLEMENTED, "there is no such method"));
      const withinMs = grpcTimeout === undefined ? undefined : timeoutMs(grpcTimeout);
      if (grpcTimeout !== undefined && withinMs === undefined) {
        return refuse(stream, new GrpcError(INTERNAL, "grpc-timeout cannot be read"));
      }
      if (method.kind === "unary") return new UnaryCall(stream, method, mostMessageBytes(), withinMs, log);
      return new ClientStreamCall(stream, method, mostMessageBytes(), withinMs, log, streaming);
    },
    drain() {
      for (const call of streaming) call.finish();
    },
  };
}

/** Most calls are one chunk with one message, decided at once: they take no timer and no buffer. */
class UnaryCall implements StreamHandler {
  private answer: Promise<Uint8Array> | Uint8Array | undefined;
  private frames: Frames | undefined;

  constructor(
    private readonly stream: Http2Stream,
    private readonly method: UnaryMethod,
    private readonly mostBytes: number,
    private readonly withinMs: number | undefined,
    private readonly log: Log,
  ) {}

  data(chunk: Buffer): void {
    try {
      const message = this.frames === undefined ? wholeMessage(chunk, this.mostBytes) : undefined;
      if (message !== undefined && this.answer === undefined) this.call(message);
      else this.frame(chunk);
    } catch (error) {
      this.fail(error);
    }
  }

  end(): void {
    try {
      this.frames?.end();
      const { answer } = this;
      if (answer === undefined) throw new GrpcError(INTERNAL, "a unary call needs a message");
      if (answer instanceof Promise) this.wait(answer);
      else reply(this.stream, answer);
    } catch (error) {
      this.fail(error);
    }
  }

  /** Whatever was taken for it stays taken: nobody can tell how far its caller had got. */
  lost(): void {}

  private frame(chunk: Buffer): void {
    this.frames ??= createFrames(this.mostBytes, this.stream.head.grpcEncoding, (message) => this.call(message));
    this.frames.push(chunk);
  }

  private call(message: Buffer): void {
    if (this.answer !== undefined) throw new GrpcError(INTERNAL, "a unary call has one message");
    this.answer = this.method.call(message);
    // Whoever awaits it comes later.
    if (this.answer instanceof Promise) this.answer.catch(() => {});
  }

  private wait(later: Promise<Uint8Array>): void {
    const timer = this.withinMs === undefined ? undefined : setTimeout(() => this.fail(late()), this.withinMs);
    later
      .then(
        (message) => reply(this.stream, message),
        (error: unknown) => this.fail(error),
      )
      .finally(() => clearTimeout(timer));
  }

  private fail(error: unknown): void {
    refuse(this.stream, statusOf(error, this.method.path, this.log));
  }
}

class ClientStreamCall implements StreamHandler {
  private readonly open: ClientStream;
  private readonly frames: Frames;
  private readonly timer: NodeJS.Timeout | undefined;
  private isOver = false;

  constructor(
    private readonly stream: Http2Stream,
    private readonly method: ClientStreamMethod,
    mostBytes: number,
    withinMs: number | undefined,
    private readonly log: Log,
    private readonly streaming: Set<ClientStreamCall>,
  ) {
    this.open = method.open();
    this.frames = createFrames(mostBytes, stream.head.grpcEncoding, (message) => this.open.message(message));
    if (withinMs !== undefined) this.timer = setTimeout(() => this.fail(late()), withinMs);
    streaming.add(this);
  }

  data(chunk: Buffer): void {
    try {
      this.frames.push(chunk);
    } catch (error) {
      this.fail(error);
    }
  }

  end(): void {
    try {
      this.frames.end();
      this.finish();
    } catch (error) {
      this.fail(error);
    }
  }

  finish(): void {
    if (this.isOver) return;
    try {
      const answer = this.open.ended();
      this.over();
      reply(this.stream, answer);
    } catch (error) {
      this.fail(error);
    }
  }

  lost(): void {
    if (this.isOver) return;
    this.over();
    try {
      this.open.lost?.();
    } catch (error) {
      this.log.error({ err: error, method: this.method.path }, "the end of a stream could not be handled");
    }
  }

  private fail(error: unknown): void {
    refuse(this.stream, statusOf(error, this.method.path, this.log));
    this.lost();
  }

  private over(): void {
    this.isOver = true;
    clearTimeout(this.timer);
    this.streaming.delete(this);
  }
}

const late = () => new GrpcError(DEADLINE_EXCEEDED, "the caller's time is over");

/** What is not meant for the caller goes to the log. */
function statusOf(error: unknown, method: string, log: Log): GrpcError {
  if (error instanceof GrpcError) return error;
  if (error instanceof ProtobufError) return new GrpcError(INVALID_ARGUMENT, `no such message: ${error.message}`);
  log.error({ err: error, method }, "a call failed");
  return new GrpcError(INTERNAL, "an error within the service");
}

const HEAD = { ":status": "200", "content-type": "application/grpc" };
const HEAD_BLOCK = headerBlock(HEAD);
const DONE_BLOCK = headerBlock({ "grpc-status": "0" });

function reply(stream: Http2Stream, message: Uint8Array): void {
  stream.respond(HEAD_BLOCK, framed(message), DONE_BLOCK);
}

/** Headers that are trailers as well. */
export function refuse(stream: Http2Stream, { status, message }: GrpcError): StreamHandler {
  const head = {
    ...HEAD,
    "grpc-status": String(status),
    "grpc-message": percentEncoded(message),
    ...(status === UNIMPLEMENTED ? { "grpc-accept-encoding": "identity" } : {}),
  };
  stream.respond(headerBlock(head));
  return nobody;
}

const nobody: StreamHandler = { data() {}, end() {}, lost() {} };
