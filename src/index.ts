/** The library: `import { createLimiter } from "@tollgate/limiter"`. Frameworks have entries of their own in `limiter/library/middleware`. */
export type { CostProfile } from "./core/cost.js";
export { UNKNOWN_LENGTH } from "./core/cost.js";
export type { Refusal } from "./core/refusals.js";
export type { ClientDecision, HeaderOptions, LimitView } from "./core/response-headers.js";
export { type CheckedRequest, declaredLength, type RequestHeaders } from "./limiter/library/checked-request.js";
export { createLimiter, type LibraryLimiter } from "./limiter/library/library.js";
export type {
  AppOptions,
  BucketOptions,
  ClusterOptions,
  CommonOptions,
  CreateLimiterOptions,
  LeaseOptions,
  LimitOptions,
  Limits,
} from "./limiter/library/library-options.js";
export { limit, limitPlugin } from "./limiter/library/middleware/http.js";
export type { Extractor, MiddlewareOptions } from "./limiter/library/middleware/middleware.js";
export { type Allowed, type Refused, type Result, rateLimitHeaders, refusalOf } from "./limiter/library/results.js";
export type { Decision, DecisionSource, LimitDecision, LimiterObserver, LimiterStats } from "./limiter/limiter.js";
export type { LimitsOutcome } from "./limiter/limits/limits-alone.js";
export { StoreError, type StoreErrorKind } from "./store/errors.js";
export { openStore } from "./store/open.js";
export type { Store } from "./store/store.js";
