/** What a call says of one app: its id, and a list of numbers whose places are named here. */

export const BURST = 0;
/** Micro-tokens per second. */
export const GUARANTEED = 1;
export const PRIORITY = 2;
/**
 * Seconds in which the bucket fills from empty to full, for a limit that comes and goes: it is forgotten once it is full.
 * 0 for an app that stays: then it fills as GUARANTEED says.
 */
export const FILL_S = 3;
/** All scripts about an app have the numbers up to here. */
export const LIMIT_NUMBERS = 4;

/** The counters of a node's message, cumulative since its epoch began. */
export const GRANTED = 4;
export const SPENT = 5;
export const RETURNED = 6;
/** All messages have the numbers up to here. */
export const MESSAGE_NUMBERS = 7;
