/** The clock of Envoy's workers, which have none of their own: that of the system, in milliseconds since 1970. */
export { prepareSystemClock as prepareClock, systemNowMs as nowMs } from "../lua/system-clock.js";
