/** The system clock in milliseconds since 1970. */
import { ffi, type Timespec, toNumber } from "./envoy-api.js";

const REALTIME = 0;
const clock = {} as { time: Timespec };

/** Once in each worker. */
export function prepareClock(): void {
  ffi.cdef(`
    typedef struct { long seconds; long nanoseconds; } tollgate_time;
    int clock_gettime(int clock, tollgate_time *into);
  `);
  clock.time = ffi.new("tollgate_time");
}

export function nowMs(): number {
  const { time } = clock;
  ffi.C.clock_gettime(REALTIME, time);
  return toNumber(time.seconds) * 1000 + toNumber(time.nanoseconds) / 1e6;
}
