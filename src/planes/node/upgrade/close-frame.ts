/** WebSocket close frames sent by the proxy: RFC 6455, 5.5.1. */
import { randomFillSync } from "node:crypto";

/** The gateway shuts down, or the connection was idle. */
export const GOING_AWAY = 1001;
/** The connection lost its slot; the client may reconnect. */
export const TRY_AGAIN_LATER = 1013;

const reasons: Record<number, string> = { [GOING_AWAY]: "going away", [TRY_AGAIN_LATER]: "try again later" };

/** `masked`: as sent by a client, to the backend. */
export function closeFrame(code: number, masked: boolean): Buffer {
  const reason = reasons[code] ?? "";
  const payloadAt = masked ? 6 : 2;
  const frame = Buffer.alloc(payloadAt + 2 + reason.length);
  frame[0] = 0x88;
  frame[1] = (masked ? 0x80 : 0) | (2 + reason.length);
  frame.writeUInt16BE(code, payloadAt);
  frame.write(reason, payloadAt + 2, "latin1");
  if (masked) {
    randomFillSync(frame, 2, 4);
    for (let at = payloadAt; at < frame.length; at++) frame[at]! ^= frame[2 + ((at - payloadAt) & 3)]!;
  }
  return frame;
}
