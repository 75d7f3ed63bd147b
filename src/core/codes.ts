/** All codes of decisions and replies. `docs/CODES.md` lists the same ones; a test compares both. */

/** The tokens were granted, or the operation succeeded. */
export const OK = "ok";
/** The bucket of the app (L2) or of a limit has too few tokens. See Retry-After. */
export const QUOTA_EXHAUSTED = "quota_exhausted";
/** Too few tokens, but other nodes hold some and were asked to return them. The node asks again; clients never see it. */
export const RECALLING = "recalling";
/** L1: the bucket of the cluster has too few tokens. */
export const CLUSTER_EXHAUSTED = "cluster_exhausted";
/** The cost is above the capacity of the bucket: a retry cannot succeed. */
export const COST_EXCEEDS_CAPACITY = "cost_exceeds_capacity";
/** The app's priority has a reduced quota, or none, during the emergency. */
export const EMERGENCY_BLOCKED = "emergency_blocked";
/** The app has already borrowed the maximum. */
export const BORROW_LIMIT_EXCEEDED = "borrow_limit_exceeded";
/** The app may not borrow. */
export const BORROWING_DISABLED = "borrowing_disabled";
/** The app's bucket has no room for borrowed tokens. */
export const BUCKET_FULL = "bucket_full";
/** A value is missing, not a number, negative, infinite or too large. Nothing was changed. */
export const INVALID_ARGUMENT = "invalid_argument";
/** A later message of the same node was already processed. Nothing was changed. */
export const STALE_MESSAGE = "stale_message";
/** The node did not report for too long and its tokens were returned: it must discard its tokens and start a new epoch. */
export const EPOCH_CLOSED = "epoch_closed";
/** Another node holds the lock. Nothing was changed. */
export const HELD = "held";
/** The store is unavailable and `on_store_failure` does not admit the request. */
export const STORE_UNAVAILABLE = "store_unavailable";
/** The process is short of CPU time, memory or files and refuses new work. */
export const OVERLOADED = "overloaded";
/** The limit refuses this value: it is in its `deny` list. */
export const DENIED = "denied";
/** The app or user header is malformed or was sent twice. */
export const INVALID_IDENTITY = "invalid_identity";
/** The JSON Web Token is missing, invalid or expired. */
export const INVALID_TOKEN = "invalid_token";
/** The keys that verify JSON Web Tokens could not be read yet. */
export const TOKEN_KEYS_UNAVAILABLE = "token_keys_unavailable";
/** The app is not configured, and unknown apps are refused. */
export const UNKNOWN_APP = "unknown_app";

/** The slot was acquired. */
export const SLOT_SUCCESS = "SUCCESS";
/** The connection already has the slot: a repeated call. */
export const SLOT_ALREADY_HELD = "ALREADY_HELD";
/** The pod, or every candidate, has reached its limit. */
export const SLOT_LIMIT_EXCEEDED = "LIMIT_EXCEEDED";
/** The total limit of all pods is reached. */
export const SLOT_TOTAL_LIMIT_EXCEEDED = "TOTAL_LIMIT_EXCEEDED";
/** The app has reached its connection limit. */
export const SLOT_APP_LIMIT_EXCEEDED = "APP_LIMIT_EXCEEDED";
/** The client's address has reached its connection limit. */
export const SLOT_CLIENT_LIMIT_EXCEEDED = "CLIENT_LIMIT_EXCEEDED";
/** The rate limit for new connections is exceeded. */
export const SLOT_RATE_LIMITED = "RATE_LIMITED";
/** The client's address has used its share of the new connections. */
export const SLOT_CLIENT_RATE_LIMITED = "CLIENT_RATE_LIMITED";
/** The connection was released before its acquire arrived. */
export const SLOT_RELEASED = "RELEASED";
/** The store lost its slots: the caller must renew all connections first. */
export const SLOT_FORGOTTEN = "FORGOTTEN";
/** A value is missing, not a number, negative, infinite or too large. Nothing was changed. */
export const SLOT_INVALID_ARGUMENT = "INVALID_ARGUMENT";
