/** Messages from workers to the main thread, and its answers: words separated by spaces. Ids of accounts have no spaces. */

/** `wait waiter deadline (account cost)…`: a request waits for tokens of these accounts. */
export const WAIT = "wait";
/** `pause waiter milliseconds`: a body asks again for tokens after this time. The answer is empty. */
export const PAUSE = "pause";
/** `low account`: its lease is low. */
export const LOW = "low";
/** `used account`: it was used since the last tick. */
export const USED = "used";
/** From C: Envoy has dropped all calls. */
export const LOST = "lost";

/** `slot waiter stream app client dry-run route`: an upgrade needs a slot. An unknown client is `-`. */
export const SLOT = "slot";
/** `answered connection`, `unreached connection`: what the pod of a connection did. `ended connection`: its stream has ended. */
export const ANSWERED = "answered";
export const UNREACHED = "unreached";
export const ENDED = "ended";
/** From a main thread to the one that replaces it: `hold …` a connection, `release …` one that has ended. */
export const HOLD = "hold";
export const RELEASE = "release";

/** Answers to `slot`: `placed pod connection code`, where the code is that of a dry run or `-`; `refused code seconds`; `failed error`. */
export const PLACED = "placed";
export const REFUSED = "refused";
export const FAILED = "failed";

/** An answer has this many words for each account: code, source, retry after in milliseconds, balance. */
export const ANSWER_WORDS = 4;

/** How streams are closed. Codes of close frames, as on the Node gateway; frames.c has their reasons. */
export const GOING_AWAY = 1001;
export const TRY_AGAIN_LATER = 1013;
/** The pod has not answered: a response with this status. */
export const UPSTREAM_TIMEOUT = 504;
