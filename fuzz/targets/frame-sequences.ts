/** Inputs of the HTTP/2 targets: records that become frames with correct lengths. */
import { http2Frame, prefaceWith } from "../../test/support/http2-frames.js";

/** When its reply has arrived, all frames before it were processed. */
const PAYLOAD = Buffer.from("the last");
const finalPing = http2Frame(6, 0, 0, PAYLOAD);
const [GOAWAY, PING] = [7, 6];

/** The reply to the last ping, or GOAWAY. */
export function isAnswered(received: Buffer): boolean {
  for (let at = 0; at + 9 <= received.length; at += 9 + received.readUIntBE(at, 3)) {
    const type = received[at + 3];
    if (type === GOAWAY || (type === PING && received.subarray(at + 9, at + 17).equals(PAYLOAD))) return true;
  }
  return false;
}

/** Type, flags, stream, and two bytes for the length of the payload, which follows. */
const RECORD_BYTES = 5;

export const record = (type: number, flags: number, stream: number, payload: Uint8Array = Buffer.alloc(0)) =>
  Buffer.concat([Buffer.from([type, flags, stream, payload.length >> 8, payload.length]), payload]);

/** The bytes of a connection: the preface, the frames of the input, and a last ping. */
export function frameSequence(input: Buffer): Buffer {
  return Buffer.concat([prefaceWith(), ...framesOf(input), finalPing]);
}

/** Records become frames with correct lengths; what is left over is sent as it is. */
function framesOf(input: Buffer): Buffer[] {
  const frames: Buffer[] = [];
  let at = 0;
  while (input.length - at >= RECORD_BYTES) {
    const [type, flags, stream] = input.subarray(at);
    const end = at + RECORD_BYTES + input.readUInt16BE(at + 3);
    frames.push(http2Frame(type!, flags!, stream!, input.subarray(at + RECORD_BYTES, end)));
    at = end;
  }
  return [...frames, input.subarray(at)];
}
