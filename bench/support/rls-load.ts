/** Calls ShouldRateLimit over one HTTP/2 connection, with so many under way at all times, as Envoy's worker would. */
import { connect } from "node:net";
import * as h2 from "../../src/envoy-service/grpc/http2/frames.js";
import { createFrameReader, Output } from "../../src/envoy-service/grpc/http2/frames.js";
import { HpackDecoder, headerBlock } from "../../src/envoy-service/grpc/http2/hpack.js";
import { Writer } from "../../src/envoy-service/grpc/protobuf-writer.js";
import { SHOULD_RATE_LIMIT } from "../../src/envoy-service/rate-limit/service.js";

const HEAD = headerBlock({
  ...{ ":method": "POST", ":scheme": "http", ":path": SHOULD_RATE_LIMIT, ":authority": "tollgate_envoy" },
  ...{ te: "trailers", "grpc-timeout": "20m", "content-type": "application/grpc" },
});

function message(): Buffer {
  const writer = new Writer();
  const descriptor = writer.text(1, "tollgate").open(2);
  const entry = writer.open(1);
  const bytes = writer.text(1, "app_id").text(2, "video").close(entry).close(descriptor).finish(5);
  bytes.fill(0, 0, 1).writeUInt32BE(bytes.length - 5, 1);
  return bytes;
}

/** How many calls were answered within the time. Fails where one has another status than 0. */
export function callFor(port: number, milliseconds: number, underWay: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1");
    socket.setNoDelay(true);
    const output = new Output();
    const decoder = new HpackDecoder();
    const body = message();
    let id = 1;
    let done = 0;

    function call(): void {
      output.frame(h2.HEADERS, h2.END_HEADERS, id, HEAD);
      output.frame(h2.DATA, h2.END_STREAM, id, body);
      id += 2;
    }

    const read = createFrameReader((type, flags, _stream, payload) => {
      if (type === h2.SETTINGS && (flags & h2.ACK) === 0) output.frame(h2.SETTINGS, h2.ACK, 0, Buffer.alloc(0));
      else if (type === h2.PING && (flags & h2.ACK) === 0) output.frame(h2.PING, h2.ACK, 0, payload);
      else if (type === h2.RST_STREAM || type === h2.GOAWAY) throw new Error("the server ended a call");
      else if (type === h2.HEADERS) {
        let status = "0";
        decoder.decode(payload, (name, value) => {
          if (name === "grpc-status") status = value;
        });
        if (status !== "0") throw new Error(`a call ended with status ${status}`);
        if ((flags & h2.END_STREAM) === 0) return;
        done++;
        call();
      }
    });

    socket.on("error", reject);
    socket.on("data", (chunk: Buffer) => {
      try {
        read(chunk);
      } catch (error) {
        reject(error);
        socket.destroy();
      }
      if (!output.isEmpty) socket.write(output.take());
    });
    socket.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    output.frame(h2.SETTINGS, 0, 0, h2.settingsPayload([[h2.SETTINGS_INITIAL_WINDOW_SIZE, 1_048_576]]));
    output.number(h2.WINDOW_UPDATE, 0, 0x3fff_ffff);
    for (let i = 0; i < underWay; i++) call();
    socket.write(output.take());
    setTimeout(() => {
      socket.destroy();
      resolve(done);
    }, milliseconds);
  });
}
