/** What a call says of one app: its id, and a list of numbers whose places are named here. */

export const BURST = 0;
/** Micro-tokens per second. */
export const GUARANTEED = 1;
export const PRIORITY = 2;
/** All scripts about an app have the numbers up to here. */
export const LIMIT_NUMBERS = 3;

/** The counters of a node's message, cumulative since its epoch began. */
export const GRANTED = 3;
export const SPENT = 4;
export const RETURNED = 5;
/** All messages have the numbers up to here. */
export const MESSAGE_NUMBERS = 6;
