/** tollgate as a library: `import { createLimiter } from "tollgate"`. */
export type { CostProfile } from "./core/cost.js";
export { UNKNOWN_LENGTH } from "./core/cost.js";
export { limitedRefusal as refusalOf } from "./core/refusals.js";
export type { HeaderOptions } from "./core/response-headers.js";
export {
  type AppOptions as AppLimits,
  type CreateLimiterOptions,
  createLimiter,
  declaredLength,
  type LibraryLimiter,
} from "./limiter/library/library.js";
export {
  limit,
  limitPlugin,
  type MiddlewareOptions,
  rateLimitHeaders,
  retryAfterSeconds,
} from "./limiter/library/middleware.js";
export type {
  Decision,
  DecisionSource,
  LimitDecision,
  Limiter,
  LimiterObserver,
  LimiterStats,
  RequestAttributes,
} from "./limiter/limiter.js";
export type { LimitOptions } from "./limiter/limits/limit-options.js";
export { StoreError, type StoreErrorKind } from "./store/errors.js";
export { openStore } from "./store/open.js";
export type { Store } from "./store/store.js";
