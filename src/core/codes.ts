/** All codes of decisions and replies. `docs/CODES.md` lists the same ones; a test compares both. */

/** The tokens were granted, or the operation was carried out. */
export const OK = "ok";
/** L2: the app's bucket has too few tokens. */
export const QUOTA_EXHAUSTED = "quota_exhausted";
/** L1: the bucket of the cluster has too few tokens. */
export const CLUSTER_EXHAUSTED = "cluster_exhausted";
/** The cost exceeds the capacity of the bucket: waiting does not help. */
export const COST_EXCEEDS_CAPACITY = "cost_exceeds_capacity";
/** The app's priority is reduced or blocked during an emergency. */
export const EMERGENCY_BLOCKED = "emergency_blocked";
/** The app already owes as much as it may borrow. */
export const BORROW_LIMIT_EXCEEDED = "borrow_limit_exceeded";
/** The app may not borrow at all. */
export const BORROWING_DISABLED = "borrowing_disabled";
/** The app's bucket has no room for borrowed tokens. */
export const BUCKET_FULL = "bucket_full";
/** A value is missing, not a number, negative, infinite or too large. Nothing was changed. */
export const INVALID_ARGUMENT = "invalid_argument";
/** The node has already sent a later message. Nothing was changed. */
export const STALE_MESSAGE = "stale_message";
/** The node was silent for too long and its tokens were returned: it must start a new epoch. */
export const EPOCH_CLOSED = "epoch_closed";
/** Another process holds the lock. Nothing was changed. */
export const HELD = "held";
/** The store is unavailable and `on_store_failure` does not admit the request. */
export const STORE_UNAVAILABLE = "store_unavailable";
/** The identity is malformed or was given twice. */
export const INVALID_IDENTITY = "invalid_identity";
/** The app is not configured, and unknown apps are refused. */
export const UNKNOWN_APP = "unknown_app";

/** The slot was taken. */
export const SLOT_SUCCESS = "SUCCESS";
/** The connection already holds the slot: a repeated call. */
export const SLOT_ALREADY_HELD = "ALREADY_HELD";
/** The pod, or every candidate, is full. */
export const SLOT_LIMIT_EXCEEDED = "LIMIT_EXCEEDED";
/** All pods together are at their limit. */
export const SLOT_TOTAL_LIMIT_EXCEEDED = "TOTAL_LIMIT_EXCEEDED";
/** The app is at its limit of connections. */
export const SLOT_APP_LIMIT_EXCEEDED = "APP_LIMIT_EXCEEDED";
/** Too many new connections per second. */
export const SLOT_RATE_LIMITED = "RATE_LIMITED";
/** The connection was released before its acquire arrived: it has ended. */
export const SLOT_RELEASED = "RELEASED";
/** The store has lost its slot state since the caller's last call: all connections must be renewed first. */
export const SLOT_FORGOTTEN = "FORGOTTEN";
/** A value is missing, not a number, negative, infinite or too large. Nothing was changed. */
export const SLOT_INVALID_ARGUMENT = "INVALID_ARGUMENT";
