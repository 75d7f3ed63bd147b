/** The decisions that data planes written in Lua use: the entry of the LuaJIT bundle. */
export { refill, waitMs, wholeTokens } from "./bucket.js";
export {
  bandwidthProfile,
  baseCost,
  deviation,
  estimate,
  iopsProfile,
  learnSizes,
  newLearnedSizes,
  price,
  settlement,
  standardProfile,
} from "./cost.js";
export {
  degradationLevel,
  leaseFactor,
  mayWaitForStore,
  newDegradation,
  observeCall,
  pinLevel,
  reportFactor,
  withoutStoreAllowance,
} from "./degradation.js";
export { emergencyRatio } from "./emergency.js";
export { identify } from "./identity.js";
export {
  applyReply,
  beginEpoch,
  cutLease,
  isRefused,
  isReportDue,
  needsRefill,
  newLease,
  planSync,
  returnAll,
  settleTokens,
  spentTokens,
  takeAllowance,
  takeTokens,
  takeUncovered,
} from "./lease.js";
export { isIdentifier } from "./platform.js";
