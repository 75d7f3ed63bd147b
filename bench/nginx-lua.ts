/** What the plane's Lua does for one request: bytes that it allocates, and how often it leaves compiled code. */
import { luaNumbers } from "../test/support/lua-probe.js";
import type { NginxSide } from "./nginx-sides.js";
import { below, noBudget, type Result, result } from "./results.js";

/** Sends requests for so many seconds and answers how many they were. */
export type Send = (side: NginxSide, seconds: number) => Promise<number>;

interface PerRequest {
  bytes: number;
  exits: number;
  aborts: number;
}

/** By the second look all that is ever compiled is compiled. */
const WARM_UP_SECONDS = 3;

async function perRequest(side: NginxSide, send: Send): Promise<PerRequest> {
  await send(side, WARM_UP_SECONDS);
  const before = await luaNumbers(side.nginx);
  const requests = await send(side, 1);
  const after = await luaNumbers(side.nginx);
  const of = (read: (numbers: PerRequest) => number) => (read(after) - read(before)) / requests;
  return { bytes: of(({ bytes }) => bytes), exits: of(({ exits }) => exits), aborts: of(({ aborts }) => aborts) };
}

/** `handlers` does nothing in Lua: what it allocates is nginx's own. */
export async function luaResults(plane: NginxSide, handlers: NginxSide, send: Send): Promise<Result[]> {
  const own = await perRequest(plane, send);
  const floor = await perRequest(handlers, send);
  return [
    result("nginx-lua-bytes", own.bytes, "bytes of Lua's memory per request, all in all", noBudget),
    result("nginx-lua-own-bytes", own.bytes - floor.bytes, "of them beyond empty handlers", below(64)),
    result("nginx-lua-exits", own.exits, "times compiled code is left for the interpreter, per request", below(0.05)),
    result("nginx-lua-aborts", own.aborts, "compilations given up, per request", below(0.01)),
  ];
}
