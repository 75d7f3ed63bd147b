/** Any bytes are read as an access log message or rejected with a ProtobufError. */
import { assert, property, uint8Array } from "fast-check";
import { expect, it } from "vitest";
import { readAccessLogMessage } from "../../../src/envoy-service/access-log/messages.js";
import { ProtobufError } from "../../../src/envoy-service/grpc/protobuf.js";
import { Writer } from "../../../src/envoy-service/grpc/protobuf-writer.js";

function read(bytes: Uint8Array): unknown {
  try {
    return readAccessLogMessage(bytes);
  } catch (error) {
    if (error instanceof ProtobufError) return undefined;
    throw error;
  }
}

/** One entry; `access-log.test.ts` uses the official messages. */
function message(): Buffer {
  const writer = new Writer();
  const open: number[] = [];
  // http_logs, log_entry, common_properties, metadata, filter_metadata
  for (const field of [2, 1, 1, 17, 1]) open.push(writer.open(field));
  writer.text(1, "tollgate");
  for (const field of [2, 1]) open.push(writer.open(field));
  writer.text(1, "connection");
  open.push(writer.open(2));
  writer.text(3, "17");
  for (const mark of open.reverse()) writer.close(mark);
  return writer.finish();
}

it("reads the metadata of the script", () => {
  expect(readAccessLogMessage(message()).entries.map(({ marks }) => marks.connection)).toEqual(["17"]);
});

it("reads or rejects any other input", () => {
  assert(property(uint8Array({ maxLength: 200 }), (bytes) => void read(bytes)));
  const whole = message();
  for (let at = 0; at < whole.length; at++) {
    read(whole.subarray(0, at));
    for (const value of [0, 1, 0x7f, 0x80, 0xff]) {
      const changed = Uint8Array.from(whole);
      changed[at] = value;
      read(changed);
    }
  }
});
