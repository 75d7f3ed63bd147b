/** Every reason a decision can give, in one place. `docs/CODES.md` lists the same; a test compares the two. */

/** The tokens were granted, or the operation was carried out. */
export const OK = "ok";
/** L2: the app's own bucket has too little. Retry-After says when. */
export const QUOTA_EXHAUSTED = "quota_exhausted";
/** L1: the bucket that all apps of the cluster share has too little. */
export const CLUSTER_EXHAUSTED = "cluster_exhausted";
/** More than the bucket can ever hold: no waiting helps. */
export const COST_EXCEEDS_CAPACITY = "cost_exceeds_capacity";
/** The app's priority gets less, or nothing, while the emergency lasts. */
export const EMERGENCY_BLOCKED = "emergency_blocked";
/** The app already owes as much as it may borrow. */
export const BORROW_LIMIT_EXCEEDED = "borrow_limit_exceeded";
/** The app may not borrow at all. */
export const BORROWING_DISABLED = "borrowing_disabled";
/** The app's bucket has no room for borrowed tokens: it is not out. */
export const BUCKET_FULL = "bucket_full";
/** A value is missing, no number, negative, infinite or too large. Nothing was changed. */
export const INVALID_ARGUMENT = "invalid_argument";
/** A message that was overtaken by a later one of the same node. Nothing was changed. */
export const STALE_MESSAGE = "stale_message";
/** The node was silent for too long and its tokens went back: it must drop what it holds and begin a new epoch. */
export const EPOCH_CLOSED = "epoch_closed";
/** The lock belongs to another. Nothing was changed. */
export const HELD = "held";
/** The store did not answer and the app's policy does not let requests pass without it. */
export const STORE_UNAVAILABLE = "store_unavailable";
/** The identity is malformed or was given twice. */
export const INVALID_IDENTITY = "invalid_identity";
/** The app is not configured, and unknown apps are refused. */
export const UNKNOWN_APP = "unknown_app";

/** The slot was taken. */
export const SLOT_SUCCESS = "SUCCESS";
/** Taken before by the same connection: a repeated call. */
export const SLOT_ALREADY_HELD = "ALREADY_HELD";
/** The pod, or each of the candidates, is full. */
export const SLOT_LIMIT_EXCEEDED = "LIMIT_EXCEEDED";
/** All pods together are at their limit. */
export const SLOT_TOTAL_LIMIT_EXCEEDED = "TOTAL_LIMIT_EXCEEDED";
/** The app is at its limit of connections. */
export const SLOT_APP_LIMIT_EXCEEDED = "APP_LIMIT_EXCEEDED";
/** New connections come faster than allowed. */
export const SLOT_RATE_LIMITED = "RATE_LIMITED";
/** The connection was released before its acquire arrived: it has ended. */
export const SLOT_RELEASED = "RELEASED";
/** The store has lost its memory since the caller last heard of it: all that live must be renewed first. */
export const SLOT_FORGOTTEN = "FORGOTTEN";
/** A value is missing, no number, negative, infinite or too large. Nothing was changed. */
export const SLOT_INVALID_ARGUMENT = "INVALID_ARGUMENT";
