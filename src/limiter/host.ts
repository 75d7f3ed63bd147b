/** Time as the limiter sees it: the same as for all who act by themselves. */
export { type Host, systemHost } from "../shared/clock.js";
