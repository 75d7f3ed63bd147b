/** Memory that the plane allocates in Lua per request, and how often LuaJIT leaves compiled code. For information. */
import { luaNumbers } from "../test/support/lua-probe.js";
import type { NginxSide } from "./nginx-sides.js";
import { noBudget, type Result, result } from "./results.js";

/** Sends requests for this many seconds and returns their number. */
export type Send = (side: NginxSide, seconds: number) => Promise<number>;

interface PerRequest {
  bytes: number;
  exits: number;
  aborts: number;
}

/** After this time everything is compiled. */
const WARM_UP_SECONDS = 3;

async function perRequest(side: NginxSide, send: Send): Promise<PerRequest> {
  await send(side, WARM_UP_SECONDS);
  const before = await luaNumbers(side.nginx);
  const requests = await send(side, 1);
  const after = await luaNumbers(side.nginx);
  const of = (read: (numbers: PerRequest) => number) => (read(after) - read(before)) / requests;
  return { bytes: of(({ bytes }) => bytes), exits: of(({ exits }) => exits), aborts: of(({ aborts }) => aborts) };
}

/** `handlers` has empty Lua handlers: nginx itself allocates what they allocate. */
export async function luaResults(plane: NginxSide, handlers: NginxSide, send: Send): Promise<Result[]> {
  const own = await perRequest(plane, send);
  const floor = await perRequest(handlers, send);
  return [
    result("nginx-lua-bytes", own.bytes, "bytes of Lua memory per request", noBudget),
    result("nginx-lua-own-bytes", own.bytes - floor.bytes, "of them beyond empty handlers", noBudget),
    result("nginx-lua-exits", own.exits, "times compiled code is left for the interpreter, per request", noBudget),
    result("nginx-lua-aborts", own.aborts, "compilations given up, per request", noBudget),
  ];
}
