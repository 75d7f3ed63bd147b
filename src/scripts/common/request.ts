/** Positions of an app's numbers in a call. */

export const BURST = 0;
/** Micro-tokens per second. */
export const GUARANTEED = 1;
export const PRIORITY = 2;
/**
 * Seconds to fill the empty bucket of a descriptor limit, which expires once it is full. 0 for an app, which is permanent
 * and fills at GUARANTEED.
 */
export const FILL_S = 3;
/** Number of values that all scripts about an app have. */
export const LIMIT_NUMBERS = 4;

/** The counters of a node's message, cumulative since its epoch began. */
export const GRANTED = 4;
export const SPENT = 5;
export const RETURNED = 6;
/** Number of values that all messages have. */
export const MESSAGE_NUMBERS = 7;
