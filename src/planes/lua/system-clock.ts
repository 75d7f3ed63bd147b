/** The system clock in milliseconds since 1970, with fractions. */

interface Time {
  readonly seconds: number;
  readonly nanoseconds: number;
}

/** LuaJIT's interface to C. */
interface Ffi {
  readonly C: {
    tollgate_clock(this: void, clock: number, into: Time): number;
  };
  cdef(this: void, declarations: string): void;
  "new"(this: void, type: "struct { long seconds; long nanoseconds; }"): Time;
}

declare function require(this: void, module: "ffi"): Ffi;
declare function tonumber(this: void, value: number): number;

const ffi = require("ffi");
const toNumber = tonumber;
const REALTIME = 0;
const clock = {} as { time: Time };

/** Once in each Lua state, before the first use. The function has its own name: other libraries may declare it too. */
export function prepareSystemClock(): void {
  ffi.cdef('int tollgate_clock(int clock, void *into) __asm__("clock_gettime");');
  clock.time = ffi.new("struct { long seconds; long nanoseconds; }");
}

export function systemNowMs(): number {
  const { time } = clock;
  ffi.C.tollgate_clock(REALTIME, time);
  return toNumber(time.seconds) * 1000 + toNumber(time.nanoseconds) / 1e6;
}
