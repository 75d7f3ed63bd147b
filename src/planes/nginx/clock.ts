/** The clock of nginx: milliseconds since 1970, updated once per turn of the event loop. */
import { ngx } from "./ngx.js";

export function nowMs(): number {
  return ngx.now() * 1000;
}

/** Reads the system clock, to measure durations within one turn. */
export function freshNowMs(): number {
  ngx.update_time();
  return ngx.now() * 1000;
}
