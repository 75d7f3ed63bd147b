/** Time as this plane sees it: milliseconds since 1970, as of the last turn of the event loop. */
import { ngx } from "./ngx.js";

export function nowMs(): number {
  return ngx.now() * 1000;
}

/** Looks at the real clock: for measuring what took place within one turn. */
export function freshNowMs(): number {
  ngx.update_time();
  return ngx.now() * 1000;
}
