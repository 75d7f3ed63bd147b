/** One request on an HTTP/2 connection: its head, who hears the rest of it, and its one answer. */

/** What the listener asks of a request; nothing else of its headers is kept. */
export interface RequestHead {
  method: string;
  path: string;
  contentType: string;
  authorization: string | undefined;
  /** content-length; NaN where it is no number. */
  length: number;
  grpcTimeout: string | undefined;
  grpcEncoding: string | undefined;
  /** A page in a browser says where it comes from. */
  fromPage: boolean;
}

export function newHead(): RequestHead {
  // One object per request, made in one step.
  return {
    method: "",
    path: "",
    contentType: "",
    authorization: undefined,
    length: 0,
    grpcTimeout: undefined,
    grpcEncoding: undefined,
    fromPage: false,
  };
}

export function noteHeader(head: RequestHead, name: string, value: string): void {
  switch (name) {
    case ":method":
      head.method = value;
      break;
    case ":path":
      head.path = value;
      break;
    case "content-type":
      head.contentType = value;
      break;
    case "authorization":
      head.authorization = value;
      break;
    case "content-length":
      head.length = Number(value);
      break;
    case "grpc-timeout":
      head.grpcTimeout = value;
      break;
    case "grpc-encoding":
      head.grpcEncoding = value;
      break;
    case "origin":
    case "sec-fetch-site":
      head.fromPage = true;
  }
}

/** Whoever answers a stream. Nothing is heard any more of one that is answered. */
export interface StreamHandler {
  /** A view that is good until it returns. */
  data(chunk: Buffer): void;
  /** The caller has said all. */
  end(): void;
  /** The caller has gone before it was answered. */
  lost(): void;
}

/** What a stream needs of its connection. */
export interface StreamHost {
  answer(stream: Http2Stream, head: Buffer): void;
}

export class Http2Stream {
  /** Undefined only while it is being found. */
  handler: StreamHandler | undefined;
  isAnswered = false;
  /** The caller has said all. */
  isEnded = false;
  isClosed = false;
  /** Bytes that the caller may still send, and that were heard since it was last allowed more. */
  receiveWindow: number;
  heardBytes = 0;
  /** The answer, as far as it is not yet sent. */
  body: Uint8Array = NOTHING;
  sentBytes = 0;
  trailers: Buffer | undefined;

  constructor(
    private readonly host: StreamHost,
    readonly id: number,
    readonly head: RequestHead,
    receiveWindow: number,
    /** Bytes that may be sent. */
    public sendWindow: number,
  ) {
    this.receiveWindow = receiveWindow;
  }

  /** Once; a second answer, or one to a caller that has gone, is nobody's. `head` and `trailers` are header blocks. */
  respond(head: Buffer, body: Uint8Array = NOTHING, trailers?: Buffer): void {
    if (this.isAnswered || this.isClosed) return;
    this.isAnswered = true;
    this.body = body;
    this.trailers = trailers;
    this.host.answer(this, head);
  }
}

const NOTHING = new Uint8Array(0);
